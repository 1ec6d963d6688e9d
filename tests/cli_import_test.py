"""`warmroot ami import AMI` as it is typed, on a simulated region without machines, whose guests power off when this test says
so, as the import's user-data would: cost, progress, Ctrl-C and going on, exit status, what is refused, what is left at EC2.
Called by ctest: cli_import_test.py BUILD-FOLDER."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_serve_test import BUILD, announced, call, check, read, start, until, write  # noqa: E402

CATALOG = """\
snapshots = [
  { id = "snap-0base000000000001", size_gib = 1 },
  { id = "snap-0public0000000001", size_gib = 8, readable = false },
]
images = [
  { id = "ami-0base000000000001", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0base000000000001" },
  { id = "ami-0public0000000001", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0public0000000001", owner_id = "099720109477" },
  { id = "ami-0market0000000001", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0public0000000001", owner_id = "099720109477", product_codes = ["abc123"] },
  { id = "ami-0hurried000000001", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0public0000000001", owner_id = "099720109477" },
]
subnets = [ { id = "subnet-0a00000000000001", zone = "us-east-1a" } ]
"""
SPEC = """\
deployment = "importtest"
manager_url = "http://127.0.0.1:8470"
[[pool]]
name = "imagenet"
{source}
zones = ["us-east-1a"]
nodes = 1
running = 1
[pool.launch]
base_ami = "ami-0base000000000001"
instance_types = ["g5.12xlarge"]
subnets = {{ us-east-1a = "subnet-0a00000000000001" }}
"""
FAST = ["--creating-ms", "200", "--pending-ms", "500", "--attach-ms", "300", "--detach-ms", "300", "--shutdown-ms", "500"]
PUBLIC = "ami-0public0000000001"


class Importer:
    def __init__(self, region):
        self.region, self.children = region, []

    def command(self, ami, *words):
        return [f"{BUILD}/warmroot", "--bootstrap", "program", "ami", "import", ami, *words]

    def begin(self, ami, *words):
        """The command beside this test; its stdout and stderr go to files."""
        with open("import.out", "wb") as out, open("import.err", "wb") as err:
            self.children.append(subprocess.Popen(self.command(ami, *words), stdout=out, stderr=err, stdin=subprocess.DEVNULL))
        return self.children[-1]

    def refused(self, name, words, ami, *options):
        """2, one sentence, nothing launched."""
        before = len(self.instances())
        done = subprocess.run(self.command(ami, *options), capture_output=True, text=True, timeout=60, check=False)
        told = [line for line in done.stderr.splitlines() if line.startswith("warmroot: ")]
        check(done.returncode == 2 and len(told) == 1 and words in told[0] and not done.stdout,
              f"{name} is refused: status {done.returncode}: {done.stderr.strip()}{done.stdout}")
        check(len(self.instances()) == before, "and nothing is launched for it")

    def instances(self, state=None):
        found = call(self.region + "/_control/state")[1]["instances"]
        return [row for row in found if state is None or row["state"] == state]

    def power_off(self, instance_id):
        subprocess.run([f"{BUILD}/warmroot-sim", "power-off", instance_id, "--endpoint-url", self.region], check=True,
                       stdout=subprocess.DEVNULL, timeout=20)

    def ec2(self, *words):
        done = subprocess.run(["aws", "--region", "us-east-1", "--endpoint-url", self.region, "ec2", *words, "--output", "json"],
                              capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    def snapshots(self, ami):
        return self.ec2("describe-snapshots", "--owner-ids", "self", "--filters", f"Name=tag:warmroot:import,Values={ami}")["Snapshots"]


def refusals(importer):
    importer.refused("an AMI with a Marketplace product code", "carries the Marketplace product code abc123", "ami-0market0000000001")
    importer.refused("an AMI that nobody has", "is no AMI that this account can see in this Region", "ami-0999999999999999f")
    importer.refused("a subnet that nobody has", "subnet", PUBLIC, "--subnet", "subnet-0ffffffffffffffff")
    done = subprocess.run(importer.command("ami-0base000000000001"), capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0 and done.stdout == "snap-0base000000000001\n" and "needs no import" in done.stderr,
          f"an AMI whose snapshot may be used needs none, and that snapshot is told ({done.stderr.strip()})")
    done = subprocess.run([f"{BUILD}/warmroot", "ami", "import"], capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 2 and "see warmroot" in done.stderr, f"without an AMI its use is told ({done.stderr.strip()})")


def interrupted(importer):
    """Ctrl-C at each stage, and the same command again."""
    child = importer.begin(PUBLIC)
    running = until("one instance of the AMI runs", lambda: importer.instances("running"))
    check(len(running) == 1 and running[0]["instance_type"] == "t3.medium" and not running[0]["spot"], "a small one, on demand")
    terms = until("its price is told before all else", lambda: re.search(r"importing \S+: (this launches .*)", read("import.err")))
    for words in ("one t3.medium on demand for about 5 minutes (about 0.003 USD)", "snapshot of up to 8 GiB", "0.40 USD a month",
                  "can be interrupted"):
        check(words in terms.group(1), f"the terms say: {words}")
    until("it says what it waits for", lambda: "to boot, clean itself and power off" in read("import.err"))
    silence(child, 6)
    child.send_signal(signal.SIGINT)
    check(child.wait(timeout=20) == 130 and "run the same command again to go on" in read("import.err"), "Ctrl-C ends it with 130 and says how to go on")
    check(len(importer.instances()) == 1, "and its instance runs on")
    child = importer.begin(PUBLIC)
    until("the next run goes on", lambda: "going on where an earlier run was" in read("import.err"))
    check("this launches" not in read("import.err"), "without a second launch, nor a price for one")
    importer.power_off(running[0]["instance_id"])
    until("it sees that the guest is off", lambda: importer.instances("stopped"))
    until("it waits for the snapshot", lambda: "snapshot" in read("import.err").rsplit("waiting for", 1)[-1])
    child.send_signal(signal.SIGTERM)
    check(child.wait(timeout=20) == 130, "SIGTERM is as good as Ctrl-C")
    return running[0]["instance_id"]


def silence(child, seconds):
    """Progress is never silent for more than 2 s, give or take a busy machine."""
    before, end = read("import.err").count("\n"), time.monotonic() + seconds
    while time.monotonic() < end and child.poll() is None:
        time.sleep(0.1)
    lines = read("import.err").count("\n") - before
    check(child.poll() is None and lines >= seconds // 3, f"{lines} lines of progress in {seconds} s")


def finished(importer, instance_id):
    child = importer.begin(PUBLIC)
    check(child.wait(timeout=120) == 0, f"the third run ends it ({read('import.err')[-600:]})")
    taken = importer.snapshots(PUBLIC)
    check([row["SnapshotId"] for row in taken] == [read("import.out").strip()], "stdout is the id of the one snapshot that there is")
    check(f'write snapshot = "{taken[0]["SnapshotId"]}" in place of ami in the spec' in read("import.err"), "and the last words say what to write")
    check(taken[0]["VolumeSize"] == 8 and taken[0]["State"] == "completed", "it is the root's, and complete")
    until("the instance has ended", lambda: [row["instance_id"] for row in importer.instances("terminated")] == [instance_id])
    done = subprocess.run(importer.command(PUBLIC), capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0 and done.stdout.strip() == taken[0]["SnapshotId"] and len(importer.instances()) == 1,
          "once more, it only tells the snapshot again")
    return taken[0]["SnapshotId"]


def killed(importer):
    """What EC2 refuses, a process that dies, and a guest that was stopped before it was clean."""
    call(importer.region + "/_control/fault?kind=unauthorized&action=RunInstances", b"")
    importer.refused("a launch that the account's rights forbid", "UnauthorizedOperation", "ami-0hurried000000001")
    child = importer.begin("ami-0hurried000000001")
    running = until("it is launched once it may be", lambda: importer.instances("running"))
    child.kill()
    child.wait()
    child = importer.begin("ami-0hurried000000001")
    call(importer.region + f"/_control/stop?instance={running[0]['instance_id']}", b"")
    check(child.wait(timeout=60) == 1 and "was stopped from outside before it was clean" in read("import.err"),
          f"a guest that somebody stopped is not taken for clean: status 1 ({read('import.err')[-300:]})")
    check(not importer.snapshots("ami-0hurried000000001") and not read("import.out"), "and no snapshot was made of it")
    until("and it is ended", lambda: running[0]["instance_id"] in [row["instance_id"] for row in importer.instances("terminated")])


def used(importer, snapshot):
    """What was imported is a pool's source."""
    write("spec.toml", SPEC.format(source=f'snapshot = "{snapshot}"'))
    done = subprocess.run([f"{BUILD}/warmroot", "--bootstrap", "program", "reconcile", "--until-stable", "--timeout", "60"],
                          capture_output=True, text=True, timeout=120, check=False)
    volumes = [row["snapshot_id"] for row in call(importer.region + "/_control/state")[1]["volumes"]]
    check(done.returncode == 0 and volumes == [snapshot], f"a pool's volume is made from it ({done.stderr[-600:]})")


def main():
    with tempfile.TemporaryDirectory(prefix="warmroot-import-") as folder:
        os.chdir(folder)
        try:
            run()
        finally:
            os.chdir("/")


def run():
    write("catalog.toml", CATALOG)
    write("spec.toml", SPEC.format(source=f'ami = "{PUBLIC}"'))
    write("program", "#!/bin/sh\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                      AWS_REGION="us-east-1", WARMROOT_SPEC="spec.toml", WARMROOT_STATE="state", no_proxy="*")
    simulator = start("region.log", f"{BUILD}/warmroot-sim", "serve", "--no-machines", "--port", "0", "--dir", "region",
                      "--catalog", "catalog.toml", *FAST)
    importer = Importer(None)
    try:
        region = until("the region is there", lambda: announced("region.log", "endpoint"))
        os.environ["AWS_ENDPOINT_URL"] = region
        importer.region = region
        refusals(importer)
        instance_id = interrupted(importer)
        snapshot = finished(importer, instance_id)
        killed(importer)
        used(importer, snapshot)
    except BaseException:
        print(read("import.err")[-3000:] if os.path.exists("import.err") else "", file=sys.stderr)
        raise
    finally:
        for child in [each for each in importer.children if each.poll() is None] + [simulator]:
            child.terminate()
            child.wait(timeout=20)


if __name__ == "__main__":
    main()
