"""`warmroot serve` as its neighbours see it, on a simulated region without machines: this test plays the bootstraps (hello,
signed reports, wishes), the operator (pause, resume, a broken spec, SIGHUP, SIGTERM) and EC2's interruption.
Called by ctest: cli_serve_test.py BUILD-FOLDER."""
import hashlib
import hmac
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

BUILD = os.path.abspath(sys.argv[1])
PATIENCE_SECONDS = 60
SNAPSHOT = "snap-0ami0000000000001"
SPEC = """\
deployment = "servetest"
manager_url = "http://127.0.0.1:8470"
[[pool]]
name = "imagenet"
snapshot = "snap-0ami0000000000001"
zones = ["us-east-1a"]
nodes = {nodes}
running = {nodes}
[pool.launch]
base_ami = "ami-0base000000000001"
instance_types = ["g5.12xlarge"]
subnets = {{ us-east-1a = "subnet-0a00000000000001" }}
"""
CATALOG = """\
snapshots = [ { id = "snap-0base000000000001", size_gib = 1 }, { id = "snap-0ami0000000000001", size_gib = 4 } ]
images = [ { id = "ami-0base000000000001", name = "base", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0base000000000001" } ]
subnets = [ { id = "subnet-0a00000000000001", zone = "us-east-1a", cidr = "127.20.0.0/24" } ]
"""
FAST = ["--creating-ms", "200", "--pending-ms", "500", "--attach-ms", "300", "--detach-ms", "300", "--shutdown-ms", "500",
        "--notice-ms", "3000"]


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print("ok:", what, flush=True)


def until(what, condition):
    """Waits for something true and returns it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = condition()
        if found:
            print("ok:", what, flush=True)
            return found
        time.sleep(0.1)
    raise SystemExit(f"FAILED: {what} (waited {PATIENCE_SECONDS} s)")


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def read(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return file.read()


def start(log, *arguments):
    with open(log, "wb") as file:
        return subprocess.Popen(arguments, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def announced(log, key):
    lines = [line for line in read(log).splitlines() if line.startswith(key + "=")]
    return lines[0].split("=", 1)[1] if lines else None


def call(url, body=None, headers=None, address=""):
    """(HTTP status, JSON answer) of a request that comes from this address, or any."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=10, source_address=(address, 0) if address else None)
    try:
        connection.request("GET" if body is None else "POST", "/" + path, body, headers or {})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def metadata(region, instance_id, path):
    """What the instance's metadata service says below /latest/dynamic/instance-identity/."""
    port = next(item["imds_port"] for item in call(region + "/_control/state")[1]["instances"] if item["instance_id"] == instance_id)
    url = f"http://127.0.0.1:{port}/latest/"
    ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    with urllib.request.urlopen(urllib.request.Request(url + "api/token", method="PUT", headers=ttl), timeout=10) as reply:
        token = {"X-aws-ec2-metadata-token": reply.read().decode()}
    with urllib.request.urlopen(urllib.request.Request(url + "dynamic/instance-identity/" + path, headers=token), timeout=10) as reply:
        return reply.read().decode()


class Guest:
    """A bootstrap's part of the conversation."""

    def __init__(self, manager, region, instance_id):
        self.manager, self.instance_id, self.sequence, self.key = manager, instance_id, 0, b""
        self.identity = metadata(region, instance_id, "rsa2048")
        self.address = json.loads(metadata(region, instance_id, "document"))["privateIp"]

    def hello(self, **other):
        words = {"version": 1, "instance_id": self.instance_id, "deployment": "servetest", "pool": "imagenet", "identity": self.identity}
        status, answer = call(self.manager + "/v1/hello", json.dumps({**words, **other}), address=self.address)
        if status == 200:
            self.key = bytes.fromhex(answer["key"])
        return status, answer

    def report(self, stage, volume_id):
        """The answer's wishes."""
        self.sequence += 1
        body = json.dumps({"version": 1, "instance_id": self.instance_id, "volume_id": volume_id, "stage": stage,
                           "status": {"warm": {"needed_blocks": 1000, "warmth": 0.5}}})
        signature = hmac.new(self.key, f"{self.sequence}\n{body}".encode(), hashlib.sha256).hexdigest()
        status, answer = call(self.manager + "/v1/report", body,
                              {"X-Warmroot-Instance": self.instance_id, "X-Warmroot-Sequence": str(self.sequence),
                               "X-Warmroot-Signature": signature})
        check(status == 200, f"the report {stage} of {self.instance_id} is accepted ({answer})")
        return answer["wishes"]


    def block_list(self):
        """The bytes that the manager hands out, by a signed request."""
        self.sequence += 1
        signature = hmac.new(self.key, f"{self.sequence}\n".encode(), hashlib.sha256).hexdigest()
        headers = {"X-Warmroot-Instance": self.instance_id, "X-Warmroot-Sequence": str(self.sequence),
                   "X-Warmroot-Signature": signature}
        with urllib.request.urlopen(urllib.request.Request(self.manager + "/v1/block-list", headers=headers), timeout=10) as reply:
            return reply.read()


def node(manager, name="imagenet-0"):
    return next((row for row in call(manager + "/status")[1]["nodes"] if row["node"] == name), {})


def warmroot(*arguments):
    return subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


def converse(manager, region, daemon):
    attached = until("a node has its volume attached", lambda: (row := node(manager)).get("lease") == "checking" and row)
    first, volume = Guest(manager, region, attached["instance_id"]), attached["volume_id"]
    with urllib.request.urlopen(manager + "/bootstrap/warmroot-bootstrap", timeout=10) as reply:
        check(reply.read() == read("program").encode(), "the bootstrap is served as it is")
    check(first.hello(identity=None)[0] == 403, "the id alone proves nothing")
    check(first.hello(instance_id="i-00000000000000000")[0] == 403, "an identity is good for its own instance")
    stolen = Guest(manager, region, first.instance_id)
    stolen.address = "127.20.0.200"
    check(stolen.hello()[0] == 403, "a stolen document comes from another address")
    status, answer = first.hello()
    check(status == 200 and answer["node"] == "imagenet-0" and answer["volume_id"] == volume, "hello tells node and volume")
    check(first.hello()[0] == 409, "a second hello is refused")
    check(first.hello(pool="other")[0] == 404, "a stranger is told to come back")
    with urllib.request.urlopen(manager + "/metrics", timeout=10) as reply:
        metrics = reply.read().decode()
    for reason, count in {"unsigned": 1, "wrong_instance": 1, "wrong_address": 1, "key_in_use": 1, "unknown": 1, "forged": 0}.items():
        check(f'refused_total{{request="hello",reason="{reason}"}} {count}\n' in metrics, f"{count} hellos are counted as {reason}")
    check("warmroot_identity_verified 1\n" in metrics and call(manager + "/status")[1]["identity"] == "signed document",
          "metrics and status say that identities are verified")
    check(first.report("mounted", volume) == {"drain": False, "volume_id": volume, "snapshot_id": SNAPSHOT, "no_volume": None},
          "a report is answered with wishes")
    kept = f"state/block-lists/{SNAPSHOT}.blocks"
    until("the snapshot's block list was fetched from EBS", lambda: os.path.exists(kept))
    with open(kept, "rb") as file:
        check(first.block_list() == file.read() and "no block list" not in read("serve.log"), "and is handed to the instance")
    until("the status shows the stage", lambda: node(manager)["stage"] == "mounted" and node(manager)["warmth"] == 0.5)
    until("the lease is active", lambda: node(manager)["lease"] == "active")

    subprocess.run([f"{BUILD}/warmroot-sim", "interrupt", first.instance_id, "--endpoint-url", region], check=True,
                   stdout=subprocess.DEVNULL)
    moved = until("the same volume serves a replacement", lambda: (row := node(manager)).get("lease") == "checking" and
                  row["volume_id"] == volume and row["instance_id"] != first.instance_id and row)
    second = Guest(manager, region, moved["instance_id"])
    check(second.hello()[0] == 200, "the replacement says hello")
    second.report("ready", volume)

    check("Pool imagenet is now paused" in warmroot("pool", "pause", "imagenet").stdout, "pause says what it did")
    until("the instance is asked to drain", lambda: second.report("ready", volume)["drain"])
    second.report("released", volume)
    until("the node is asleep and keeps its volume", lambda: (row := node(manager))["state"] == "asleep" and
          row["volume_id"] == volume)

    write("spec.toml", SPEC.format(nodes='"three"'))
    daemon.send_signal(signal.SIGHUP)
    until("a broken spec is refused in the log", lambda: "spec kept as it was" in read("serve.log"))
    write("spec.toml", SPEC.format(nodes=2))
    daemon.send_signal(signal.SIGHUP)
    until("a better spec adds a node", lambda: node(manager, "imagenet-1").get("volume_id"))
    check("uses the state folder" in warmroot("reconcile").stderr, "a second manager is refused")


def main():
    with tempfile.TemporaryDirectory(prefix="warmroot-serve-") as folder:
        os.chdir(folder)
        run()
        os.chdir("/")


def start_region():
    """In this folder: catalogue, spec and program, the environment of who uses them, and the region's process."""
    write("catalog.toml", CATALOG)
    write("spec.toml", SPEC.format(nodes=1))
    write("program", "#!/bin/sh\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                      AWS_REGION="us-east-1", WARMROOT_SPEC="spec.toml", no_proxy="*")
    return start("region.log", f"{BUILD}/warmroot-sim", "serve", "--no-machines", "--port", "0", "--dir", "region",
                 "--catalog", "catalog.toml", *FAST)


def run():
    os.environ["WARMROOT_STATE"] = "state"
    children = [start_region()]
    try:
        region = until("the region is there", lambda: announced("region.log", "endpoint"))
        os.environ["AWS_ENDPOINT_URL"] = region
        daemon = start("serve.log", f"{BUILD}/warmroot", "--bootstrap", "program", "serve", "--listen", "127.0.0.1:0",
                       "--identity-certificates", "region/identity.pem")
        children.append(daemon)
        manager = "http://" + until("the manager listens", lambda: announced("serve.log", "listening"))
        converse(manager, region, daemon)
        daemon.terminate()
        check(daemon.wait(timeout=20) == 0, "SIGTERM ends the manager cleanly")
    except BaseException:
        print(read("serve.log")[-4000:] if os.path.exists("serve.log") else "", file=sys.stderr)
        raise
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()
                child.wait(timeout=20)


if __name__ == "__main__":
    main()
