"""Power cuts in real guests, at random moments under load: while a session writes, while an instance comes up with the
volume, while it gives the volume back. After each the replacement has to serve the same volume, checked before any session,
with every byte that an fsync had promised, and let its user in. The seed is printed and draws the moments.
Usage: guest_cuts_test.py [--cuts N] [--seed S]   (WARMROOT_GUEST_CUTS and WARMROOT_SEED; 10 cuts and a seed by the time)"""
import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
import traceback

from world import TOP, World

DIRECTORY = os.path.join(TOP, "build", "guest_cuts_test")
NODES = 2
POOL = {"name": "cuts", "source": 'ami     = "ami-0imagenet00000001"', "nodes": NODES, "running": NODES, "instance_type": "g5.xlarge"}
READY_WITHIN = 240
SESSION_STAGES = ("ready", "warming", "warm")
REPAIRED = "not left clean; e2fsck -p repaired it"

# Numbered files whose content follows from their number, each synced before its name and its name before it is promised;
# beside them bytes that nothing syncs, so that journal and page cache are busy whenever the power goes.
PROGRAM = """
import os, sys
def content(n):
    return (b"%d " % n) * (1 + n * 37 % 900)
os.makedirs("cuts", exist_ok=True)
os.chdir("cuts")
here = os.open(".", os.O_RDONLY)
def write(first):
    for n in range(first, first + 1000000):
        with open("churn-%d" % (n % 8), "wb") as churn:
            churn.write(os.urandom(256 * 1024))
        with open("next", "wb") as file:
            file.write(content(n))
            file.flush()
            os.fsync(file.fileno())
        os.rename("next", str(n))
        os.fsync(here)
        print(n, flush=True)
def check(promised):
    names = {int(name) for name in os.listdir(".") if name.isdigit()}
    lost = [n for n in range(1, promised + 1) if n not in names]
    torn = [n for n in sorted(names) if open(str(n), "rb").read() != content(n)]
    print("files=%d lost=%s torn=%s last=%d" % (len(names), lost[:5], torn[:5], max(names, default=0)))
{"write": write, "check": check}[sys.argv[1]](int(sys.argv[2]))
"""


def moments(random_, cuts):
    """Half of them while a session writes, and at least one each while the volume comes and while it goes."""
    kinds = [("serving", "coming", "serving", "leaving")[i % 4] for i in range(cuts)]
    random_.shuffle(kinds)
    return kinds


class Node:
    """One node's life under cuts; a thread of its own."""

    def __init__(self, world, name, random_, kinds):
        self.world, self.name, self.random, self.kinds = world, name, random_, kinds
        self.promised = 0
        self.came_up_s = 10.0
        self.volume = None
        self.faults = []
        self.cuts = 0
        self.repaired = 0

    def fault(self, text):
        self.faults.append(f"{self.name}: {text}")
        self.world.say(f"FAIL {self.faults[-1]}")

    def ready(self, not_on):
        def condition(status):
            node = self.world.node(self.name, status)
            if node.get("instance_id") in not_on:
                return None
            if node.get("stage") == "failed":
                raise RuntimeError(f"{self.name} failed: {(node.get('status') or {}).get('message', '')}")
            return node if node.get("stage") in SESSION_STAGES else None

        return self.world.wait(f"sessions on {self.name}", condition, READY_WITHIN)

    def successor(self, not_on):
        """The next instance that serves the node, as soon as one runs."""
        def condition(status):
            instance = self.world.node(self.name, status).get("instance_id")
            return instance if instance and instance not in not_on and self.world.instance(instance)["ssh_port"] else None

        return self.world.wait(f"an instance for {self.name}", condition, READY_WITHIN)

    def command(self, instance, mode, number):
        return [*self.world.ssh_command(instance), f"python3 - {mode} {number}"]

    def cut(self, instance):
        """The power of one that has given its volume back already may be gone by itself."""
        if self.world.instance(instance)["state"] in ("pending", "running"):
            self.world.control("crash", instance)
            self.cuts += 1

    def judge(self, node, cut):
        """What the replacement shows: the volume, its check, and the bytes."""
        if self.volume not in (None, node["volume_id"]):
            self.fault(f"after {cut} it serves {node['volume_id']}, not {self.volume}")
        self.volume = node["volume_id"]
        done = subprocess.run(self.command(node["instance_id"], "check", self.promised), input=PROGRAM, capture_output=True,
                              text=True, timeout=120, check=False)
        if done.returncode or "lost=[] torn=[]" not in done.stdout:
            self.fault(f"after {cut}, {self.promised} files promised: {done.stdout}{done.stderr}")
        else:  # what was whole and never promised counts from now on
            self.promised = int(done.stdout.rsplit("last=", 1)[1])
        code, text = self.world.ssh(node["instance_id"], "cat /run/warmroot/status.json")
        steps = {step["name"]: step for step in json.loads(text)["steps"]} if code == 0 else {}
        check, opened = steps.get("check ext4"), steps.get("switch sessions")
        if not check or not opened or check["start_ms"] + check["ms"] > opened["start_ms"]:
            self.fault(f"after {cut} sessions opened before the check: {text[:2000]}")
        elif cut == "serving" and check["detail"] != REPAIRED:
            self.fault(f"cut while {cut}, and the check says {check['detail']}")
        else:
            self.repaired += check["detail"] == REPAIRED

    def write_until_cut(self, node, leaving):
        child = subprocess.Popen(self.command(node["instance_id"], "write", self.promised + 1), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdin.write(PROGRAM)
        child.stdin.close()
        acknowledged = []
        reader = threading.Thread(target=lambda: acknowledged.extend(int(line) for line in child.stdout if line.endswith("\n")))
        reader.start()
        deadline = time.monotonic() + 60
        while not acknowledged and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.1)
        if not acknowledged:
            self.fault(f"nothing could be written: {child.stderr.read() if child.poll() is not None else ''}")
        time.sleep(self.random.uniform(0, 4))
        if leaving:
            self.world.post("interrupt", instance=node["instance_id"])
            time.sleep(self.random.uniform(0, 6))
        self.cut(node["instance_id"])
        child.terminate()  # the client of a machine that is gone
        reader.join()
        child.wait()
        self.promised = max([self.promised, *acknowledged])

    def live(self):
        try:
            node, gone = self.ready(()), set()
            self.judge(node, "the first start")
            for kind in self.kinds:
                gone.add(node["instance_id"])
                self.world.say(f"{self.name}: power cut while {kind}, {self.promised} files promised")
                self.write_until_cut(node, kind == "leaving")
                if kind == "coming":
                    coming = self.successor(gone)
                    time.sleep(self.random.uniform(0, self.came_up_s))
                    self.cut(coming)
                    gone.add(coming)
                since = time.monotonic()
                node = self.ready(gone)
                self.came_up_s = time.monotonic() - since
                self.judge(node, kind)
        except (Exception, SystemExit) as error:  # the other node goes on, and the count says what is missing
            traceback.print_exc()
            self.fault(f"{type(error).__name__}: {error}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuts", type=int, default=int(os.environ.get("WARMROOT_GUEST_CUTS", "10")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("WARMROOT_SEED", str(int(time.time())))))
    options = parser.parse_args()
    print(f"seed={options.seed} cuts={options.cuts}", flush=True)
    random_ = random.Random(options.seed)
    kinds = moments(random_, options.cuts)
    subprocess.run(["rm", "-rf", DIRECTORY], check=True)
    with World(DIRECTORY, [POOL], ("--notice-ms", "60000", "--seed", str(options.seed))) as world:
        nodes = [Node(world, f"cuts-{i}", random.Random(random_.random()), kinds[i::NODES]) for i in range(NODES)]
        threads = [threading.Thread(target=node.live) for node in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    faults = [fault for node in nodes for fault in node.faults]
    for fault in faults:
        print(f"FAIL {fault}")
    cuts = sum(node.cuts for node in nodes)
    print(f"{cuts} cuts, {sum(node.promised for node in nodes)} files promised, {sum(node.repaired for node in nodes)} checks repaired, "
          f"{len(faults)} faults, seed={options.seed}")
    sys.exit(1 if faults or cuts < options.cuts else 0)


if __name__ == "__main__":
    main()
