"""What operators order by hand, as they type it, on a simulated region without machines: alone and beside a running
`serve`. Called by ctest: cli_orders_test.py BUILD-FOLDER."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_serve_test import BUILD, CATALOG, FAST, SPEC, announced, call, check, read, start, until, write  # noqa: E402

SILENT = []  # connections that are kept open
EMPTY = SPEC.format(nodes=0).replace("imagenet", "other")
LAUNCHED_BY_PEOPLE = SPEC.format(nodes=1).split("[pool.launch]", maxsplit=1)[0]


class Operator:
    def __init__(self, endpoint):
        self.endpoint = endpoint

    def run(self, *words, status=0):
        done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--endpoint-url", self.endpoint, *words], capture_output=True, text=True,
                              timeout=120, check=False)
        check(done.returncode == status,
              f"warmroot {' '.join(words)} ends with {status} (got {done.returncode}: {done.stdout} {done.stderr})")
        return done.stdout + done.stderr

    def region_volumes(self):
        """As the region has them, whoever's they are."""
        return {each["volume_id"]: each for each in call(self.endpoint + "/_control/state")[1]["volumes"] if not each["state"].startswith("delet")}

    def pool_volumes(self):
        """Their ids."""
        return list(self.region_volumes())

    def volumes(self):
        done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--endpoint-url", self.endpoint, "--output", "json", "volume", "list"],
                              capture_output=True, text=True, timeout=60, check=True)
        return {row["node"]: row for row in json.loads(done.stdout) if row["node"]}


def alone(operator):
    """Without serve the command acts itself, and does nothing else that the spec asks for."""
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    first = operator.volumes()["imagenet-0"]
    shown = operator.run("ssh-config", "imagenet")
    check("Host imagenet-0\n    HostName " in shown and "HostKeyAlias imagenet-0\n" in shown, "ssh-config tells where the node is")
    check("no user's name" in operator.run("ssh", "eve;x@imagenet-0", status=2), "a user's name for a shell is refused")
    check("no node" in operator.run("ssh", "nobody-7", "--", "id", status=2), "a node that the spec does not have is named")
    held = operator.run("volume", "delete", first["volume_id"], "--yes", status=1)
    check("release" in held, "a volume in use is not deleted, and the way out is named")
    check("is with" in operator.run("volume", "quarantine", first["volume_id"], status=1), "nor set aside")
    operator.run("release", first["instance_id"])
    freed = operator.volumes()["imagenet-0"]
    check(freed["instance_id"] is None, "the released volume is free, and nothing was launched for it")
    check("has no instance now" in operator.run("ssh", "imagenet-0", status=1), "nobody is sent to an instance that is gone")
    operator.run("volume", "quarantine", first["volume_id"], "--reason", "odd journal")
    operator.run("volume", "return", first["volume_id"])
    check("refused" in operator.run("attach", "i-0ffffffffffffffff", "--pool", "imagenet", "--timeout", "30", status=1),
          "an instance that nobody has is refused")
    attached_by_hand(operator, freed["volume_id"])
    deleted_by_hand(operator, freed["volume_id"])


def attached_by_hand(operator, volume):
    """An instance that people launched gets the node's volume by order, and gives it back."""
    done = subprocess.run(["aws", "--region", "us-east-1", "--endpoint-url", operator.endpoint, "ec2", "run-instances", "--image-id", "ami-0base000000000001",
                           "--instance-type", "g5.12xlarge", "--subnet-id", "subnet-0a00000000000001", "--query", "Instances[0].InstanceId",
                           "--output", "text"], capture_output=True, text=True, timeout=60, check=True)
    instance = done.stdout.strip()
    shown = operator.run("attach", instance, "--pool", "imagenet", "--timeout", "60")
    check(instance in shown and volume in shown, "attach says which volume the instance has got")
    row = operator.volumes()["imagenet-0"]
    check((row["volume_id"], row["instance_id"]) == (volume, instance), "and it has it")
    shown = operator.region_volumes()[volume]
    check((shown["instance_id"], shown["attachment_state"]) == (instance, "attached"), "the region says so as well")
    check("is with" in operator.run("volume", "delete", volume, "--yes", status=1), "what was attached by hand is not deleted")
    operator.run("release", instance)
    check(operator.volumes()["imagenet-0"]["instance_id"] is None, "release takes it back")
    subprocess.run(["aws", "--region", "us-east-1", "--endpoint-url", operator.endpoint, "ec2", "terminate-instances", "--instance-ids", instance],
                   capture_output=True, timeout=60, check=True)


def deleted_by_hand(operator, volume):
    """A free volume that sessions may have used is deleted at the second word."""
    check("say --yes" in operator.run("volume", "delete", volume, status=1), "data is not lost on a first word")
    check(volume in operator.pool_volumes(), "and the volume stays")
    shown = operator.run("volume", "delete", volume, "--yes")
    check("does not show" in shown and volume not in operator.pool_volumes(), "volume delete deletes what is free, and says so")


def serve(operator):
    daemon = start("serve.log", f"{BUILD}/warmroot", "--bootstrap", "program", "--endpoint-url", operator.endpoint, "serve", "--listen", "127.0.0.1:0")
    until("serve listens", lambda: announced("serve.log", "listening"))
    until("its socket is there", lambda: os.path.exists("state/socket"))
    check(os.stat("state/socket").st_mode & 0o777 == 0o600, "nobody else may speak to it")
    return daemon


def speak(text, patience=20):
    """What serve answers to this on its socket, up to the first line or its end."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(patience)
        peer.connect("state/socket")
        peer.sendall(text)
        return peer.makefile("rb").readline()


def disturb():
    """Garbage and people who say nothing."""
    check(speak(b"GET / HTTP/1.1\r\n\r\n") == b"", "a browser is sent away")
    check(json.loads(speak(b'{"order": 999999}\n')) == {"order": 999999, "met": False, "answer": "the ledger has no such order"},
          "an order that nobody placed is answered")
    for _ in range(20):
        silent = socket.socket(socket.AF_UNIX)
        silent.connect("state/socket")
        SILENT.append(silent)


def killed_in_the_middle(operator):
    """serve dies (SIGKILL) while an order is under way: the command takes the lock and goes on."""
    daemon = serve(operator)
    served = until("a node is served", lambda: (row := operator.volumes()["imagenet-0"])["instance_id"] and row)
    command = subprocess.Popen([f"{BUILD}/warmroot", "--bootstrap", "program", "--endpoint-url", operator.endpoint, "release", served["instance_id"]],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until("the order has reached EC2", lambda: "call action=DetachVolume" in read("serve.log"))
    daemon.kill()
    daemon.wait()
    told = command.communicate(timeout=120)[0]
    check(command.returncode == 0 and "the running manager has gone" in told, f"the command ends what the dead serve began: {told}")
    check(operator.volumes()["imagenet-0"]["instance_id"] is None, "and the volume is free")
    check(os.path.exists("state/socket"), "the dead process has left its socket")
    daemon = serve(operator)
    daemon.terminate()
    check(daemon.wait(timeout=30) == 0 and not os.path.exists("state/socket"), "the next serve replaced it, and removed its own")


def beside_serve(operator):
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    served = operator.volumes()["imagenet-0"]
    daemon = serve(operator)
    try:
        disturb()
        check("is with" in operator.run("volume", "quarantine", served["volume_id"], status=1), "serve refuses to set a volume in use aside")
        check("release" in operator.run("volume", "delete", served["volume_id"], "--yes", status=1), "and to delete it")
        check("refused" in operator.run("attach", "i-0ffffffffffffffff", "--pool", "imagenet", "--timeout", "30", status=1),
              "serve tells that nobody has the instance")
        operator.run("release", served["instance_id"])
        until("serve replaces what was released by hand",
              lambda: (row := operator.volumes()["imagenet-0"])["instance_id"] not in (None, served["instance_id"])
              and row["volume_id"] == served["volume_id"])
    finally:
        daemon.send_signal(signal.SIGTERM)
        check(daemon.wait(timeout=30) == 0, "serve ends when asked")


def by_hand_beside_serve(operator):
    """Of a pool whose instances people launch: serve attaches and deletes as it is told."""
    write("warmroot.toml", LAUNCHED_BY_PEOPLE)
    daemon = serve(operator)
    try:
        served = operator.volumes()["imagenet-0"]
        operator.run("release", served["instance_id"])
        attached_by_hand(operator, served["volume_id"])
        deleted_by_hand(operator, served["volume_id"])
        until("serve makes the node another volume", lambda: (row := operator.volumes().get("imagenet-0")) and row["volume_id"] != served["volume_id"])
    finally:
        daemon.terminate()
        check(daemon.wait(timeout=30) == 0, "serve ends when asked")
    write("warmroot.toml", SPEC.format(nodes=1))


def the_end_of_a_pool_beside_serve(operator):
    write("warmroot.toml", SPEC.format(nodes=1))
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    served = operator.volumes()["imagenet-0"]
    daemon = serve(operator)
    try:
        check("still names" in operator.run("pool", "delete", "imagenet", "--yes", status=2), "beside serve a pool of the spec is not deleted")
        write("warmroot.toml", EMPTY)
        daemon.send_signal(signal.SIGHUP)
        until("serve has the spec without the pool", lambda: "spec read again" in read("serve.log"))
        for words in (["--yes"], ["--keep-volumes"]):
            check(f"is leased: {served['volume_id']} to {served['instance_id']}" in operator.run("pool", "delete", "imagenet", *words, status=2),
                  f"nor one whose volume is leased, with {words[0]}")
        check(operator.region_volumes()[served["volume_id"]]["instance_id"] == served["instance_id"], "which stays where it is")
        operator.run("release", served["instance_id"])
        check("--yes" in operator.run("pool", "delete", "imagenet", status=2), "data is not lost on a first word")
        check("1 of its volumes" in operator.run("pool", "delete", "imagenet", "--keep-volumes"), "its volumes may be kept")
        check(operator.pool_volumes() == [served["volume_id"]], "and are")
        operator.run("pool", "delete", "imagenet", "--yes")
        check(operator.pool_volumes() == [], "serve deletes the pool's volume")
    finally:
        daemon.terminate()
        check(daemon.wait(timeout=30) == 0, "serve ends when asked")


def the_end_of_a_pool(operator):
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    write("warmroot.toml", EMPTY)
    check("is leased: vol-" in operator.run("pool", "delete", "imagenet", "--yes", status=2), "a pool whose volume is leased is not deleted")
    write("warmroot.toml", SPEC.format(nodes=1))
    operator.run("pool", "pause", "imagenet")
    operator.run("reconcile")
    states = {each["state"] for each in call(operator.endpoint + "/_control/state")[1]["instances"]}
    check(not states & {"pending", "running"}, f"one step of reconcile ends what nobody needs any more (found {states})")
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    check("still names" in operator.run("pool", "delete", "imagenet", status=2), "a pool of the spec is not deleted")
    write("warmroot.toml", EMPTY)
    listed = operator.run("reap")
    check("pool imagenet is not in the spec" in listed and "nothing is deleted" in listed, "reap lists and deletes nothing")
    young = operator.run("reap", "--delete")
    check("1 kept: not seen without use for 24 h" in young and "nothing is deleted" in young and len(operator.pool_volumes()) == 1, "the grace time keeps what was in use a moment ago")
    check("1 kept: may hold data of sessions (--yes" in operator.run("reap", "--delete", "--grace-hours", "0"), "reap tells what it leaves: a volume that may hold data needs --yes")
    check(len(operator.pool_volumes()) == 1, "and leaves it")
    check("--yes" in operator.run("pool", "delete", "imagenet", status=2), "data is not lost on a first word")
    check("1 of its volumes" in operator.run("pool", "delete", "imagenet", "--keep-volumes"), "a pool may go without its volumes")
    check(len(operator.pool_volumes()) == 1, "which stay")
    would = operator.run("reap", "--grace-hours", "0", "--yes")
    check("would be deleted with --delete" in would and len(operator.pool_volumes()) == 1, "a dry run names what it would delete")
    daemon = serve(operator)
    operator.run("volume", "quarantine", operator.pool_volumes()[0], "--reason", "odd journal")
    operator.run("volume", "return", operator.pool_volumes()[0])
    operator.run("reap", "--delete", "--grace-hours", "0", "--yes")
    check(operator.pool_volumes() == [], "reap deletes it, beside serve")
    daemon.terminate()
    daemon.wait(timeout=30)
    write("warmroot.toml", SPEC.format(nodes=1))
    operator.run("pool", "pause", "imagenet")  # the pause went with the pool
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    check(len(operator.pool_volumes()) == 1, "a paused pool makes its volume again")
    write("warmroot.toml", EMPTY)
    operator.run("pool", "delete", "imagenet", "--yes")
    check(operator.pool_volumes() == [], "the pool's volume is deleted")
    check("imagenet" not in operator.run("reap"), "then nothing of the pool is left")


def main():
    with tempfile.TemporaryDirectory(prefix="warmroot-orders-") as folder:
        os.chdir(folder)
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                          AWS_REGION="us-east-1", WARMROOT_STATE="state", no_proxy="*")
        write("catalog.toml", CATALOG)
        write("program", "#!/bin/sh\n")
        write("warmroot.toml", SPEC.format(nodes=1))
        region = start("sim.log", f"{BUILD}/warmroot-sim", "serve", "--no-machines", "--port", "0", "--dir", "region",
                       "--catalog", "catalog.toml", *FAST)
        try:
            operator = Operator(until("the region serves", lambda: announced("sim.log", "endpoint")))
            alone(operator)
            beside_serve(operator)
            by_hand_beside_serve(operator)
            killed_in_the_middle(operator)
            the_end_of_a_pool(operator)
            the_end_of_a_pool_beside_serve(operator)
        except BaseException:
            for log in ("sim.log", "serve.log"):
                if os.path.exists(log):
                    print(f"--- {log}\n{read(log)[-3000:]}")
            raise
        finally:
            region.terminate()
            region.wait(timeout=30)


if __name__ == "__main__":
    main()
