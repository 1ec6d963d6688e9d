"""Sessions on base systems of other ages: guests that boot Debian 11 (OpenSSH 8.4) and Debian 13 (10.0) with the same volume,
and their replacements after a spot notice. Each check is a line; ends with `N passed, N failed`. Some minutes: `ctest -L slow`,
tests/run.sh --all. Needs `sh tests/sim/images.sh bases`."""
import os

from guest_test import Checks, known_host, ready, run_and_exit
from session_matrix import RESCUE_PORT, base_matrix
from world import TOP, World

DIRECTORY = os.path.join(TOP, "build", "bases_test")
# Debian's version, what its `sshd -V` says, and who lets people in: from 9.8 on an sshd reads its host keys once, and a second one shows the node's.
BASES = [("11", "OpenSSH_8.4", "chroot: the base's sshd"), ("13", "OpenSSH_10.0", "chroot: a second sshd of the base")]


def pool(version):
    return {"name": f"debian{version}", "source": 'ami     = "ami-0imagenet00000001"', "nodes": 1, "running": 1, "base_ami": f"ami-0debian{version}000000001",
            "session": f'[pool.session]\nrescue_port = {RESCUE_PORT}\nuser = "admin"'}


def sessions(world, checks, version, sshd, entry):
    name, base = f"debian{version}-0", f"Debian {version}"
    node = ready(world, name)
    instance, volume = node["instance_id"], node["volume_id"]
    base_matrix(world, checks, instance, base, sshd)
    shown = known_host(world, instance, "accept-new", name)
    checks.that(f"{base}: a client learns the node's host key", shown == "in\n", shown)
    code, text = world.ssh(instance, "echo kept > kept && sync && cat /run/warmroot/status.json")
    checks.that(f"{base}: people come in by {entry}", f'"entry":"{entry}' in text.replace('": "', '":"'), text[:2000])
    world.post("interrupt", instance=instance)
    node = ready(world, name, not_on=instance)
    checks.that(f"{base}: after a spot notice the same volume serves a replacement", node["volume_id"] == volume, str(node))
    shown = known_host(world, node["instance_id"], "yes", name)
    checks.that(f"{base}: the replacement shows the node's host key", shown == "in\n", shown)
    code, text = world.ssh(node["instance_id"], "cat kept")
    checks.that(f"{base}: what was written is there", text == "kept", text)


def run(checks):
    with World(DIRECTORY, [pool(version) for version, _, _ in BASES], ("--notice-ms", "60000")) as world:
        for base in BASES:
            sessions(world, checks, *base)


def main():
    checks = Checks()
    run_and_exit(checks, DIRECTORY, lambda: run(checks))


if __name__ == "__main__":
    main()
