"""`warmroot ami import` of somebody else's AMI with real machines: its guest boots Debian with systemd and cloud-init, waits
for cloud-init's end, cleans itself and powers off; the snapshot of its root becomes the source of a pool, and a session lands
in it. What only this shows: that a whole system comes to the clean-up and through it, and that what is left is a root.
Slow, some minutes a boot without KVM: `ctest -L slow`, tests/run.sh --all. Needs `sh tests/sim/images.sh cloud`."""
import os
import re
import subprocess

from cloud_init_test import BOOT_SECONDS, console_end
from guest_test import Checks, ready, run_and_exit
from world import BUILD, TOP, World

DIRECTORY = os.path.join(TOP, "build", "import_guest_test")
PUBLIC = "ami-0public0000000001"
POOL = {"name": "taken", "source": 'ami     = "ami-0imagenet00000001"', "nodes": 0, "running": 0}
NODE = "taken-0"
OS = "warmroot test base (Debian 12 with cloud-init)"
# Each is a machine's own, and none of it is in the snapshot; the account that cloud-init made is.
LEFT = """\
cd /
echo keys: $(ls etc/ssh/ssh_host_* 2>/dev/null | wc -l)
echo machine-id: $(wc -c <etc/machine-id)
echo cloud: $(ls var/lib/cloud 2>/dev/null | wc -l)
echo logs: $(ls var/log/cloud-init*.log var/log/journal/* 2>/dev/null | wc -l)
echo seed: $(ls var/lib/systemd/random-seed 2>/dev/null | wc -l)
echo admin: $(grep -c ^admin: etc/passwd)
"""
CLEAN = ["keys: 0", "machine-id: 0", "cloud: 0", "logs: 0", "seed: 0", "admin: 1"]


def imported(world, checks):
    """The snapshot's id, as the command prints it."""
    with open(world.path("import.log"), "wb") as log:
        child = subprocess.Popen([f"{BUILD}/warmroot", "--spec", world.path("spec.toml"), "--state", world.path("state"), "ami", "import", PUBLIC],
                                 stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=world.environment())

    def told():
        with open(world.path("import.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def running():
        return next((row["instance_id"] for row in world.region()["instances"]), "")

    world.wait("the import", lambda _: child.poll() is not None, BOOT_SECONDS, every=20, hint=lambda: console_end(world, running()))
    text = told()
    checks.that("the import ends well", child.returncode == 0, text[-1500:])
    checks.that("it waited for a guest that cleans itself and powers off", "to boot, clean itself and power off" in text, text[-1500:])
    found = re.findall(r"^(snap-[0-9a-f]+)$", text, re.MULTILINE)
    checks.that("it prints the snapshot", len(found) == 1, text[-1500:])
    world.say(text.strip().splitlines()[-1])
    return found[0]


def served(world, checks, snapshot):
    world.change_pool("taken", source=f'snapshot = "{snapshot}"', nodes=1, running=1)
    node = ready(world, NODE)
    _, text = world.ssh(node["instance_id"], ". /etc/os-release; echo $PRETTY_NAME; id -un")
    checks.that("a session lands in what was imported", text == f"{OS}\nadmin", text)
    _, text = world.ssh(node["instance_id"], f"sudo sh -c '{LEFT}'")
    checks.that("nothing of the machine that made it is left, and its account is", text.splitlines()[:len(CLEAN)] == CLEAN, text)
    code, text = world.ssh(node["instance_id"], "dpkg-query -W cloud-init && e2fsck -V 2>&1 | head -1 && touch /home/admin/mine")
    checks.that("it is a whole system that can be written", code == 0 and "cloud-init" in text, text)
    volume = subprocess.run(["debugfs", "-R", "show_super_stats -h", world.path(f"region/volumes/{node['volume_id']}")],
                            capture_output=True, text=True, timeout=60, check=False).stdout
    checks.that("its file system was left clean", "Filesystem state:" in volume and "clean" in volume, volume[:400])


def run(checks):
    os.makedirs(DIRECTORY)
    with World(DIRECTORY, [POOL], kernel="vmlinuz-cloud") as world:
        served(world, checks, imported(world, checks))


def main():
    checks = Checks()
    run_and_exit(checks, DIRECTORY, lambda: run(checks))


if __name__ == "__main__":
    main()
