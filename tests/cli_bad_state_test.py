"""What operators' disks do to them, through the real programs on a simulated region without machines: a ledger that is
garbage, cut off, or of a newer version; a state folder that is read-only, or full, at the start and under a running `serve`;
and a spec of 10,000 pools. Each case asserts the exit status, one sentence with its remedy, and what EC2 holds afterwards.
The disks are tmpfs in a mount namespace of this process's own, which takes root: without it only the others are tried.
Called by ctest: cli_bad_state_test.py BUILD-FOLDER. Exit status 77 when something was left out."""
import ctypes
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_serve_test import BUILD, SPEC, announced, call, check, read, start, start_region, until, write  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 0x20000, 1, 32, 0x4000, 0x40000
COMMANDS = [["plan"], ["node", "list"], ["pool", "pause", "imagenet"], ["reconcile", "--until-stable", "--timeout", "20"],
            ["volume", "quarantine", "vol-0123456789abcdef0"], ["serve", "--listen", "127.0.0.1:0"]]
POOLS = 10_000
# Of CPU, of which it took 12 s, and 271 MiB; and by the clock, because suites may run beside it at a better priority.
PLAN_CPU_SECONDS, PLAN_SECONDS, PLAN_MIB = 60, 400, 512


def mount(target, flags, options, kind="tmpfs"):
    if LIBC.mount(b"disk", target.encode(), kind.encode(), flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def own_mounts():
    """False where this process may have none."""
    if LIBC.unshare(CLONE_NEWNS) != 0 or LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    try:
        os.mkdir("probe")
        mount("probe", 0, "size=64k")
    except OSError:
        return False
    LIBC.umount2(b"probe", 0)
    return True


def disk(name, size):
    os.mkdir(name)
    mount(name, 0, f"size={size},mode=0700")


def fill(folder):
    """Somebody else's file takes all the room that is left."""
    with open(f"{folder}/rest", "wb", buffering=0) as file:
        for size in (65536, 4096, 512):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


class Tests:
    def __init__(self, region):
        self.region = region

    def things(self):
        """What EC2 holds: ids of all instances ever and of the pools' volumes."""
        state = call(self.region + "/_control/state")[1]
        return sorted([row["instance_id"] for row in state["instances"]] + [row["volume_id"] for row in state["volumes"]])

    def refused(self, name, words, state, commands=None, remedy=""):
        """Every command ends with 2 and one sentence, and EC2 is as before."""
        before = self.things()
        for command in commands or COMMANDS:
            done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--state", state, *command], capture_output=True,
                                  text=True, timeout=60, check=False)
            told = [line for line in done.stderr.splitlines() if line.startswith("warmroot: ")]
            shown = f"{name}: {' '.join(command)}: status {done.returncode}: {done.stderr.strip()}"
            if done.returncode != 2 or len(told) != 1 or words not in told[0] or remedy not in told[0]:
                raise SystemExit(f"FAILED: {shown}")
            print("ok:", shown, flush=True)
        check(self.things() == before, f"{name}: nothing was created")

    def ledgers(self):
        """Of what is in the file."""
        done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--state", "good", "reconcile", "--until-stable",
                               "--timeout", "60"], capture_output=True, text=True, timeout=120, check=False)
        check(done.returncode == 0, f"a good ledger is made and served ({done.stderr.strip()})")
        with sqlite3.connect("good/ledger.sqlite") as base:
            base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        base.close()
        with open("good/ledger.sqlite", "rb") as file:
            good = file.read()
        cut = good[:len(good) // 2 // 4096 * 4096]
        pages = good[:8192] + b"x" * 4096 + good[12288:]
        for name, content in {"garbage": b"x" * 8192, "a few bytes": b"no ledger\n", "cut off": cut, "a damaged page": pages,
                              "cut off in a page": good[:5000], "the log of a shell": b"#!/bin/sh\necho hi\n" * 300}.items():
            state = "state-" + name.replace(" ", "-")
            os.mkdir(state)
            with open(f"{state}/ledger.sqlite", "wb") as file:
                file.write(content)
            self.refused(f"a ledger that is {name}", "damaged", state, remedy="move it")
            with open(f"{state}/ledger.sqlite", "rb") as file:
                check(file.read() == content, f"a ledger that is {name}: the file is as it was")
        shutil.copytree("good", "newer", ignore=lambda _, names: [name for name in names if name == "socket"])
        with sqlite3.connect("newer/ledger.sqlite") as base:
            base.execute("PRAGMA user_version = 99")
        base.close()
        self.refused("a ledger of a newer version", "was written by a newer warmroot (version 99)", "newer", remedy="use that one")
        # Moved away as the sentence says, it is built anew from what EC2 shows.
        os.remove("state-garbage/ledger.sqlite")
        before = self.things()
        done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--state", "state-garbage", "reconcile",
                               "--until-stable", "--timeout", "60"], capture_output=True, text=True, timeout=120, check=False)
        check(done.returncode == 0 and self.things() == before, "a ledger that was moved away is built anew, and nothing is made twice")

    def disks(self):
        """Of the file system below it."""
        disk("read-only-empty", "1m")
        mount("read-only-empty", MS_REMOUNT | MS_RDONLY, "size=1m")
        self.refused("an empty state folder that is read-only", "may be written", "read-only-empty")
        self.refused("a state folder that cannot be made on a read-only disk", "Read-only file system", "read-only-empty/state",
                     remedy="--state DIR")
        disk("read-only", "1m")
        shutil.copy("good/ledger.sqlite", "read-only/ledger.sqlite")
        mount("read-only", MS_REMOUNT | MS_RDONLY, "size=1m")
        self.refused("a good ledger on a read-only disk", "may be written", "read-only")
        mount("read-only", MS_REMOUNT, "size=1m")
        done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--state", "read-only", "plan"], capture_output=True,
                              text=True, timeout=60, check=False)
        check(done.returncode == 0 and "every wish is met" in done.stdout, "and it is as good as before once it may be written again")
        disk("full-empty", "256k")
        fill("full-empty")
        self.refused("a full disk without a ledger", "make room on the disk", "full-empty")
        disk("full", "1m")
        shutil.copy("good/ledger.sqlite", "full/ledger.sqlite")
        fill("full")
        self.refused("a full disk under a good ledger", "make room on the disk", "full")
        os.remove("full/rest")
        done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "--state", "full", "plan"], capture_output=True,
                              text=True, timeout=60, check=False)
        check(done.returncode == 0, f"and it goes on when there is room again ({done.stderr.strip()})")

    def tokens(self, state):
        """(client tokens of the instances that EC2 has, tokens of the launches that the ledger wrote down)."""
        done = subprocess.run(["aws", "--region", "us-east-1", "--endpoint-url", self.region, "ec2", "describe-instances", "--query",
                               "Reservations[].Instances[].ClientToken", "--output", "json"], capture_output=True, text=True,
                              timeout=60, check=True)
        base = sqlite3.connect(f"file:{state}/ledger.sqlite?mode=ro", uri=True)
        rows = base.execute("SELECT token FROM intents").fetchall()
        base.close()
        return set(json.loads(done.stdout)), {row[0] for row in rows}

    def under_serve(self):
        """The disk of a running serve fills, EC2 takes an instance meanwhile, people ask for more; then there is room again."""
        disk("filling", "4m")
        write("spec.toml", SPEC.format(nodes=1).replace("imagenet", "filling"))
        daemon = start("serve.log", f"{BUILD}/warmroot", "--bootstrap", "program", "--state", "filling", "serve", "--listen", "127.0.0.1:0")
        try:
            manager = "http://" + until("serve listens", lambda: announced("serve.log", "listening"))
            rows = lambda: {row["node"]: row for row in call(manager + "/status")[1]["nodes"]}  # noqa: E731
            served = until("a node is served", lambda: (row := rows().get("filling-0", {})).get("lease") == "checking" and row)
            others, before = self.tokens("filling")[0] - self.tokens("filling")[1], self.things()
            fill("filling")
            write("spec.toml", SPEC.format(nodes=3).replace("imagenet", "filling"))
            daemon.send_signal(signal.SIGHUP)
            until("serve says that there is no room", lambda: "make room on the disk" in read("serve.log"))
            call(f"{self.region}/_control/crash?instance={served['instance_id']}", b"")
            until("the instance is gone", lambda: [row for row in call(self.region + "/_control/state")[1]["instances"]
                                                   if row["instance_id"] == served["instance_id"]][0]["state"] != "running")
            time.sleep(5)  # some of its ticks
            check(daemon.poll() is None and call(manager + "/status")[0] == 200, "serve lives, and answers")
            check(self.things() == before, "what could not be written down was not asked of EC2")
            os.remove("filling/rest")
            until("with room again all three nodes are served", lambda: len(rows()) == 3 and all(
                row["lease"] == "checking" for row in rows().values()))
            now = rows()
            check(now["filling-0"]["volume_id"] == served["volume_id"], "the node that lost its instance has its own volume")
            check(len({row["volume_id"] for row in now.values()}) == 3 and len(self.things()) == len(before) + 2 + 3,
                  "two volumes and three instances were made, none twice")
            asked, written = self.tokens("filling")
            check(asked - others <= written, "each launch was written down before it was asked for")
        except BaseException:
            print(read("serve.log")[-4000:], file=sys.stderr)
            raise
        finally:
            daemon.terminate()
            check(daemon.wait(timeout=30) == 0, "serve ends when asked")

    def many_pools(self):
        """A spec of 10,000 pools, of a deployment of its own: what the others left running is not its to speak of."""
        head, pool = SPEC.format(nodes=1).replace('"servetest"', '"many"').split("[[pool]]", 1)
        write("many.toml", head + "".join("[[pool]]" + pool.replace("imagenet", f"pool-{number}") for number in range(POOLS)))
        before, began = self.things(), time.monotonic()
        with open("plan.out", "wb") as out, open("plan.err", "wb") as err:
            child = subprocess.Popen(["timeout", str(PLAN_SECONDS), f"{BUILD}/warmroot", "--bootstrap", "program", "--spec", "many.toml",
                                      "--state", "many", "--output", "json", "plan"], stdout=out, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        mib = usage.ru_maxrss / 1024
        shown = f"plan of {POOLS} pools: {time.monotonic() - began:.1f} s, {usage.ru_utime:.1f} s of CPU, {mib:.0f} MiB"
        check(child.returncode == 0, f"{shown}: status {child.returncode}: {read('plan.err')[-600:]}")
        check(usage.ru_utime <= PLAN_CPU_SECONDS and mib <= PLAN_MIB, f"{shown} (at most {PLAN_CPU_SECONDS} s and {PLAN_MIB} MiB)")
        check(f"the launches of {POOLS - 100} pools were not tried" in read("plan.err"), "it says what it did not try")
        shown = json.loads(read("plan.out"))
        check(len(shown) > 0 and self.things() == before, f"it would make {len(shown)} calls, and nothing was created")


def main():
    with tempfile.TemporaryDirectory(prefix="warmroot-state-") as folder:
        os.chdir(folder)
        mounts = own_mounts()
        try:
            run(mounts)
        finally:
            os.chdir("/")
            for name in os.listdir(folder) if mounts else []:
                LIBC.umount2(f"{folder}/{name}".encode(), 2)
    if mounts:
        return 0
    print("SKIPPED: a tmpfs cannot be mounted here (needs root): read-only and full disks were not tried")
    return 1 if os.environ.get("WARMROOT_MUST_RUN") == "1" else 77


def run(mounts):
    simulator = start_region()
    try:
        region = until("the region is there", lambda: announced("region.log", "endpoint"))
        os.environ["AWS_ENDPOINT_URL"] = region
        tests = Tests(region)
        tests.ledgers()
        if mounts:
            tests.disks()
            tests.under_serve()
        tests.many_pools()
    finally:
        simulator.terminate()
        simulator.wait(timeout=20)


if __name__ == "__main__":
    sys.exit(main())
