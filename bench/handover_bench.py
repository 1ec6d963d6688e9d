"""From a spot notice to a session on the replacement with the same volume, in guests of the simulated region, beside what
EC2 and the guest's boot take by themselves. `told`: the node reports that it has released the volume. `mute`: its reports
are blocked, so that the manager has to wait until the instance is gone. Asserts nothing. Called by `bench/run.sh handover`;
see bench/README.md."""
import argparse
import datetime
import os
import subprocess
import sys
import threading
import time

from figures import TOP, add_case, report_of, write_report

sys.path.insert(0, os.path.join(TOP, "tests"))
from world import World  # noqa: E402

POOL = {"name": "node", "source": 'ami     = "ami-0imagenet00000001"', "nodes": 1, "running": 1, "instance_type": "g5.xlarge"}
NODE = "node-0"
# As the region is told below; EC2's are of the same order (ec2.md, 3).
DETACH_S, ATTACH_S = 3.0, 2.0
NOTICE_S = {"told": 60, "mute": 20}
SESSION_STAGES = ("ready", "warming", "warm")
WITHIN = 240


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def launched_at(world, after):
    """When EC2 accepted the first launch that the manager asked for since `after`, by the manager's log."""
    with open(world.path("manager.log"), encoding="utf-8", errors="replace") as file:
        for line in file:
            if "action=RunInstances" in line and "outcome=accepted" in line and seconds_of(line.split()[0]) >= after:
                return seconds_of(line.split()[0])
    return None


class Logins:
    """Tries to log in, one attempt after the other, until a session shows the volume's marker."""

    def __init__(self, world, old, marker):
        self.world, self.old, self.marker = world, old, marker
        self.at = None
        self.attempt_s = None  # how long the attempt took that got in
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()

    def go_on(self):
        deadline = time.time() + WITHIN
        while time.time() < deadline:
            others = [item["instance_id"] for item in self.world.region()["instances"] if item["instance_id"] != self.old and item["ssh_port"]]
            for instance in others:
                began = time.time()
                try:
                    code, text = self.world.ssh(instance, "cat marker", seconds=10)
                except (subprocess.TimeoutExpired, StopIteration):
                    continue
                if code == 0 and text == self.marker:
                    self.at, self.attempt_s = time.time(), time.time() - began
                    return
            time.sleep(0.05)


def handover(world, name, round_):
    """One notice; seconds from it, by what happened."""
    node = world.wait("sessions", lambda status: (found := world.node(NODE, status)).get("stage") in SESSION_STAGES and found, WITHIN)
    old, volume = node["instance_id"], node["volume_id"]
    marker = f"{name}-{round_}"
    code, text = world.ssh(old, f"echo {marker} > marker && sync && cat marker")
    if code or text != marker:
        raise SystemExit(f"cannot write on {old}: {text}")
    if name == "mute":
        code, text = world.ssh(old, "ip route add unreachable 169.254.0.4/32", user="root")
        if code:
            raise SystemExit(f"cannot block the reports of {old}: {text}")
    noticed = time.time()
    world.post("interrupt", instance=old)
    logins = Logins(world, old, marker)
    released = gone = hello = None
    deadline = noticed + WITHIN
    while time.time() < deadline and (logins.at is None or hello is None):
        row = world.node(NODE)
        stages = row.get("stage_received") or {}
        if row.get("instance_id") == old and "released" in stages:
            released = seconds_of(stages["released"])
        if row.get("instance_id") not in (None, old) and "hello" in stages:
            hello = seconds_of(stages["hello"])
        if gone is None and all(item["state"] == "terminated" for item in world.region()["instances"] if item["instance_id"] == old):
            gone = time.time()
        time.sleep(0.05)
    logins.thread.join()
    if logins.at is None or hello is None:
        raise SystemExit(f"no session on a replacement within {WITHIN} s; logs are in {world.directory}")
    if world.node(NODE)["volume_id"] != volume:
        raise SystemExit(f"the replacement has {world.node(NODE)['volume_id']}, not {volume}")
    boot = hello - launched_at(world, noticed - 1)
    measured = {"notice to session, s": logins.at - noticed, "the login that got in, s": logins.attempt_s, "launch to the guest's hello, s": boot}
    if name == "told":
        if released is None:
            raise SystemExit("the release was not seen; poll faster")
        measured["notice to released, s"] = released - noticed
        bound = max(boot, released - noticed + DETACH_S + ATTACH_S)
    else:
        measured["notice to instance gone, s"] = gone - noticed
        bound = max(boot, gone - noticed + ATTACH_S)
    measured["bound, s"] = bound
    measured["beyond the bound, s"] = logins.at - noticed - bound
    return measured


def case(name, repetitions, seed, directory):
    values = {}
    options = ("--seed", str(seed), "--notice-ms", str(NOTICE_S[name] * 1000), "--detach-ms", str(int(DETACH_S * 1000)),
               "--attach-ms", str(int(ATTACH_S * 1000)), "--jitter", "0")
    with World(directory, [POOL], options) as world:
        for round_ in range(repetitions):
            measured = handover(world, name, round_)
            world.say(f"{name} {round_}: " + ", ".join(f"{what} {value:.2f}" for what, value in measured.items()))
            for what, value in measured.items():
                values.setdefault(what, []).append(value)
    return values


def main():
    parser = argparse.ArgumentParser(prog="bench/run.sh handover", description=__doc__)
    parser.add_argument("--json", help="write every value to this file")
    parser.add_argument("--seed", type=int, default=1, help="of the region")
    parser.add_argument("--repetitions", type=int, default=10, help="notices in each case")
    parser.add_argument("--cases", default="told,mute", help="some of: told, mute")
    asked = parser.parse_args()
    report = report_of("handover", asked)
    for name in asked.cases.split(","):
        add_case(report, name, case(name, asked.repetitions, asked.seed, os.path.join(TOP, "build", "bench", "handover-" + name)))
    write_report(report, asked.json)


if __name__ == "__main__":
    sys.exit(main())
