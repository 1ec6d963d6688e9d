"""What operators order by hand, as they type it, on a simulated region without machines: alone and beside a running
`serve`. Called by ctest: cli_orders_test.py BUILD-FOLDER."""
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_serve_test import BUILD, CATALOG, FAST, SPEC, announced, check, read, start, until, write  # noqa: E402

EMPTY = SPEC.format(nodes=0).replace("imagenet", "other")


class Operator:
    def __init__(self, endpoint):
        self.endpoint = endpoint

    def run(self, *words, status=0):
        done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--endpoint-url", self.endpoint, *words], capture_output=True, text=True,
                              timeout=120, check=False)
        check(done.returncode == status,
              f"warmroot {' '.join(words)} ends with {status} (got {done.returncode}: {done.stdout} {done.stderr})")
        return done.stdout + done.stderr

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


def beside_serve(operator):
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    served = operator.volumes()["imagenet-0"]
    daemon = start("serve.log", f"{BUILD}/warmroot", "--bootstrap", "program", "--endpoint-url", operator.endpoint, "serve", "--listen", "127.0.0.1:0")
    try:
        until("serve listens", lambda: announced("serve.log", "listening"))
        operator.run("release", served["instance_id"])
        until("serve replaces what was released by hand",
              lambda: (row := operator.volumes()["imagenet-0"])["instance_id"] not in (None, served["instance_id"])
              and row["volume_id"] == served["volume_id"])
    finally:
        daemon.send_signal(signal.SIGTERM)
        check(daemon.wait(timeout=30) == 0, "serve ends when asked")


def the_end_of_a_pool(operator):
    operator.run("pool", "pause", "imagenet")
    operator.run("reconcile", "--until-stable", "--timeout", "60")
    check("still names" in operator.run("pool", "delete", "imagenet", status=2), "a pool of the spec is not deleted")
    write("warmroot.toml", EMPTY)
    listed = operator.run("reap")
    check("pool imagenet is not in the spec" in listed and "nothing is deleted" in listed, "reap lists and deletes nothing")
    check("--yes" in operator.run("pool", "delete", "imagenet", status=2), "data is not lost on a first word")
    operator.run("pool", "delete", "imagenet", "--yes")
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
            the_end_of_a_pool(operator)
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
