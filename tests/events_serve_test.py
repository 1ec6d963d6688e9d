"""`warmroot serve` with an SQS queue, on a simulated region over HTTP: the instances report nothing, so that EC2's events are
all the manager hears between its looks. Called by ctest: events_serve_test.py BUILD-FOLDER."""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

from cli_serve_test import BUILD, CATALOG, FAST, SPEC, announced, check, node, read, start, until, write

EVENTS = '\n[events]\nqueue_url = "{url}"\n'
GROUP = """
[[pool]]
name = "grouped"
snapshot = "snap-0ami0000000000001"
zones = ["us-east-1a"]
nodes = 1
auto_scaling_group = "workers"
"""


def control(region, what):
    request = urllib.request.Request(f"{region}/_control/{what}", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def state(region):
    with urllib.request.urlopen(region + "/_control/state", timeout=10) as reply:
        return json.load(reply)


def sqs(region, action, members):
    """One call as curl signs it; Debian 12's AWS CLI and boto3 speak SQS's older protocol."""
    keys = f"{os.environ['AWS_ACCESS_KEY_ID']}:{os.environ['AWS_SECRET_ACCESS_KEY']}"
    done = subprocess.run(["curl", "-fsS", "--noproxy", "*", "--aws-sigv4", "aws:amz:us-east-1:sqs", "--user", keys, "--header",
                           f"X-Amz-Target: AmazonSQS.{action}", "--header", "Content-Type: application/x-amz-json-1.0", "--data",
                           json.dumps(members), region + "/"], capture_output=True, text=True, timeout=20, check=False)
    check(done.returncode == 0, f"the queue answers {action} {done.stderr}")
    return json.loads(done.stdout or "{}")


def converse(manager, region, queue):
    first = until("a node is served", lambda: (row := node(manager)).get("lease") in ("checking", "active") and row)
    volume, doomed = first["volume_id"], first["instance_id"]
    until("the manager rests", lambda: "listening to events" in read("serve.log"))
    time.sleep(6)  # so that its next look by itself is seconds away

    asked = time.monotonic()
    control(region, f"interrupt?instance={doomed}")
    until("a replacement is launched while the warned one still runs",
          lambda: [i for i in state(region)["instances"] if i["instance_id"] != doomed and i["state"] in ("pending", "running")]
          and any(i["instance_id"] == doomed and i["state"] == "running" for i in state(region)["instances"]))
    waited = time.monotonic() - asked
    print(f"replacement after {waited:.2f} s", flush=True)
    check(volume == node(manager)["volume_id"], "the volume stays with its node")
    moved = until("the replacement has the volume", lambda: (row := node(manager)).get("lease") in ("checking", "active")
                  and row["instance_id"] not in ("", doomed) and row)
    check(moved["volume_id"] == volume, "it is the same volume")
    log = read("region.log")
    check("detaching" not in log, "a warning is no release: nothing was detached")

    sqs(region, "SendMessage", {"QueueUrl": queue, "MessageBody": "no event at all"})
    until("what is no event is told", lambda: "event not understood, deleted" in read("serve.log"))
    attributes = lambda: sqs(region, "GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]})["Attributes"]
    until("what was acted upon is deleted", lambda: (seen := attributes())["ApproximateNumberOfMessages"] == "0" and
          seen["ApproximateNumberOfMessagesNotVisible"] == "0")
    with urllib.request.urlopen(manager + "/metrics", timeout=10) as page:
        check('warmroot_events_total{kind="interruption"} 1' in page.read().decode(), "the metrics count the warning")
    hint = node(manager)["instance_id"]
    control(region, f"rebalance?instance={hint}")
    time.sleep(2)
    check(node(manager)["instance_id"] == hint and not node(manager).get("successor_id"), "a hint alone changes nothing")

    time.sleep(3)
    asked = time.monotonic()
    control(region, "group?group=workers&image=ami-0base000000000001&type=g5.12xlarge&zone=us-east-1a"
            "&tags=warmroot:pool:grouped")
    until("an instance of a group has its volume", lambda: node(manager, "grouped-0").get("lease") in ("checking", "active"))
    waited = time.monotonic() - asked
    print(f"served after {waited:.2f} s", flush=True)
    check(waited < 15, "its event woke the manager, whose looks are a minute apart")

    served, kept = node(manager, "grouped-0")["instance_id"], node(manager, "grouped-0")["volume_id"]
    control(region, f"group_end?instance={served}&hook_ms=3000")
    control(region, "group?group=workers&image=ami-0base000000000001&type=g5.12xlarge&zone=us-east-1a"
            "&tags=warmroot:pool:grouped")
    until("the group's hook is heard, and the next instance has the volume once the first is gone",
          lambda: node(manager, "grouped-0").get("lease") in ("checking", "active")
          and node(manager, "grouped-0")["instance_id"] != served)
    check(node(manager, "grouped-0")["volume_id"] == kept, "it is the same volume")
    with urllib.request.urlopen(manager + "/metrics", timeout=10) as page:
        check('warmroot_events_total{kind="group_ends"} 1' in page.read().decode(), "the metrics count it")


def run():
    write("catalog.toml", CATALOG)
    write("program", "#!/bin/sh\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                      AWS_REGION="us-east-1", WARMROOT_SPEC="spec.toml", WARMROOT_STATE="state", no_proxy="*")
    slow_notice = [*FAST[:-1], "20000"]  # so that a replacement before the reclaim is the warning's doing
    children = [start("region.log", f"{BUILD}/warmroot-sim", "serve", "--no-machines", "--port", "0", "--dir", "region",
                      "--catalog", "catalog.toml", *slow_notice)]
    try:
        region = until("the region is there", lambda: announced("region.log", "endpoint"))
        queue = control(region, "queue?name=warmroot-events")["queue_url"]
        write("spec.toml", SPEC.format(nodes=1) + GROUP + EVENTS.format(url=queue))
        os.environ["AWS_ENDPOINT_URL"] = region
        daemon = start("serve.log", f"{BUILD}/warmroot", "--bootstrap", "program", "serve", "--listen", "127.0.0.1:0")
        children.append(daemon)
        manager = "http://" + until("the manager listens", lambda: announced("serve.log", "listening"))
        converse(manager, region, queue)
        ended = time.monotonic()
        daemon.terminate()
        check(daemon.wait(timeout=20) == 0, "SIGTERM ends the manager cleanly")
        check(time.monotonic() - ended < 8, "without waiting for its long poll")
    except BaseException:
        print(read("serve.log")[-4000:] if os.path.exists("serve.log") else "", file=sys.stderr)
        print(read("region.log")[-3000:], file=sys.stderr)
        raise
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()
                child.wait(timeout=20)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warmroot-events-") as folder:
        os.chdir(folder)
        run()
        os.chdir("/")
