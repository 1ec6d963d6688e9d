"""Base and volume are two disks of one AMI: every name by which the base could find its root leads to both. A guest that GRUB
boots from its own disk, with Debian's initramfs, systemd and cloud-init, is reset with both attached, and comes up on the base
again, with its sessions in the volume.
Slow, some minutes a boot without KVM: `ctest -L slow`, tests/run.sh --all. Needs `sh tests/sim/images.sh cloud`."""
import os
import time

from cloud_init_test import BOOT_SECONDS, Base, cloud_world, console_end, ready, session, wait_for
from guest_test import Checks, run_and_exit
from world import TOP

DIRECTORY = os.path.join(TOP, "build", "twin_guest_test")
AMI = "ami-0disk000000000001"
POOL = {"name": "imagenet", "source": f'ami     = "{AMI}"', "nodes": 1, "running": 1, "base_ami": AMI,
        "launch": 'user_data = "operators_part"'}
UUID = "7d6f1b0c-3c57-4d8e-9a8f-2f9f0c1f7a11"
GRUB = "/boot/grub/grub.cfg"
KEPT = "/var/tmp/kept"
# The serial number of the disk that the base's root is on, as EC2 gives it: the id of its volume.
ROOT_SERIAL = 'cat "/sys/class/block/$(lsblk -no PKNAME "$(findmnt -no SOURCE /)")/device/serial"'


def disk_id(serial):
    return serial.strip().replace("vol", "vol-", 1)


def pinned(world, checks, base, volume):
    """Both disks bear the names, and the base goes by those of its own."""
    uuids = base.run("lsblk -no UUID | sort | uniq -d").split()
    checks.that("two file systems have the UUID by which the base was booted", UUID in uuids, uuids)
    booted = base.run("cat /proc/cmdline")
    checks.that("the base was booted by it", f"root=UUID={UUID}" in booted, booted)
    own = disk_id(base.run(ROOT_SERIAL))
    checks.that("its root is its own disk", own.startswith("vol-") and own != volume, own)
    grub = base.run(f"cat {GRUB}")
    names = [word[5:] for line in grub.splitlines() if line.startswith("linux ") for word in line.split() if word.startswith("root=")]
    checks.that("its boot loader names the root by its own disk now", len(names) == 1 and names[0].startswith("/dev/disk/by-id/nvme-")
                and own.replace("-", "") in names[0], grub)
    fstab = base.run("cat /etc/fstab")
    checks.that("and so does its fstab", fstab.startswith(f"{names[0]} / ext4 "), fstab)
    remarks = base.run("cat /run/warmroot/status.json")
    checks.that("status says so", "bear the same name, " in remarks, remarks[-900:])
    return own


def reset(world, checks, node, base, own):
    """As by RebootInstances without patience: nothing is unmounted, nothing written back."""
    instance = node["instance_id"]
    code, text = session(world, instance, f"echo kept > {KEPT} && sync && cat /proc/sys/kernel/random/boot_id")
    checks.that("a person writes a file in the volume", code == 0, text)
    before = text.split()[-1]
    world.say(f"resetting {instance}")
    base.run("(sleep 1; echo b > /proc/sysrq-trigger) >/dev/null 2>&1 &")
    base.close()
    deadline = time.monotonic() + BOOT_SECONDS
    shown, spoken = "", time.monotonic()
    while ("kept" not in shown or before in shown) and time.monotonic() < deadline:
        time.sleep(2)
        shown = session(world, instance, f"cat {KEPT} /proc/sys/kernel/random/boot_id")[1]
        if time.monotonic() - spoken > 20:
            spoken = time.monotonic()
            world.say(f"  waiting for sessions after the reset {console_end(world, instance)}")
    checks.that("after a reset sessions land in the volume, with what was there", shown.startswith("kept\n") and before not in shown, shown)
    base = Base(world, instance)
    serial = disk_id(base.run(ROOT_SERIAL))
    checks.that("the base has come up on its own disk", serial == own, f"{serial}, not {own}")
    checks.that("it is the base, which knows no such file", base.run(f"ls {KEPT}").startswith("ls: cannot access"))
    booted = base.run("cat /proc/cmdline")
    checks.that("it was booted by the disk's own name", "root=/dev/disk/by-id/nvme-" in booted and own.replace("-", "") in booted, booted)
    return base


def given_back(world, checks, node, base):
    """Until EC2 has detached it, a reset could still take it for the base."""
    instance = node["instance_id"]
    world.say(f"spot notice for {instance}")
    world.post("interrupt", instance=instance)
    text = base.run('n=0; until grep -q \'"stage": *"released"\' /run/warmroot/status.json || [ $n = 120 ]; do n=$((n+1)); sleep 1; done; '
                    f"grep '^linux' {GRUB}; cat /run/warmroot/status.json")
    checks.that("the volume was released", '"released"' in text, text[-600:])
    checks.that("its names do not come back before it is away", "root=/dev/disk/by-id/nvme-" in text, text[:400])


def run(checks):
    with cloud_world(DIRECTORY, POOL, kernel="grub") as world:
        node = ready(world)
        base = Base(world, node["instance_id"])
        own = pinned(world, checks, base, node["volume_id"])
        # The volume has its own, which nobody changes.
        text = base.run(f"cat /run/warmroot/private/volume{GRUB}")
        checks.that("the volume's own boot loader is as it was", f"root=UUID={UUID}" in text, text)
        base = reset(world, checks, node, base, own)
        wait_for(world, "the node to be the manager's again", lambda found: found.get("lease") == "active", 300)
        given_back(world, checks, node, base)
        base.close()


def main():
    checks = Checks()
    run_and_exit(checks, DIRECTORY, lambda: run(checks))


if __name__ == "__main__":
    main()
