"""A volume that is booted as a container, on a base system as AMIs have it: the guest of cloud_init_test.py boots a volume with
its own init, logind and sshd (`session.entry = "nspawn"`), people's sessions are tried there by the stock client, then it is
given back: on a spot notice, and at a shutdown, where two inits have their own order of things. Each check is a line; ends with
`N passed, N failed`. Slow: `ctest -L slow`, tests/run.sh --all. Needs `sh tests/sim/images.sh cloud`."""
import os
import subprocess
import time

from cloud_init_test import BASE_OS, BOOT_SECONDS, COMMAND_SECONDS, cloud_world, known_host, ready, session, steps_of, wait_for
from guest_test import Checks, run_and_exit
from session_matrix import RESCUE_PORT, container_matrix
from world import TOP, VOLUME_OS

# The container takes minutes: sshd does not wait that long.
LOGIN_WAIT_S = 5
DIRECTORY = os.path.join(TOP, "build", "nspawn_guest_test")
POOL = {"name": "imagenet", "source": 'ami     = "ami-0system00000000001"', "nodes": 1, "running": 1,
        "base_ami": "ami-0cloud00000000001", "launch": 'user_data = "operators_part"',
        "session": f'[pool.session]\nentry = "nspawn"\nlogin_wait_s = {LOGIN_WAIT_S}\nrescue_port = {RESCUE_PORT}\nuser = "admin"'}
SCOPE = "warmroot-volume.scope"


def on_base(world, instance, command):
    """What it printed as root on the base, and any error: by the rescue port, through a session of the volume."""
    options = ("-o", "ProxyCommand=" + " ".join(world.ssh_command(instance)[:-1] + ["-W", f"127.0.0.1:{RESCUE_PORT}", "admin@127.0.0.1"]))
    done = subprocess.run([*world.ssh_command(instance, "steward", options), "sudo sh -s"], input=command, capture_output=True, text=True,
                          timeout=COMMAND_SECONDS, check=False)
    return (done.stdout + done.stderr).strip()


def entered(world, instance):
    """The status line `entry`, once it is no more about to begin."""
    return session(world, instance, "grep -o '\"entry\": *\"[^\"]*' /run/warmroot/status.json")[1]


def boots(world, checks, instance):
    shown = ""
    deadline = time.monotonic() + BOOT_SECONDS
    while "nspawn: the volume's sshd" not in shown and time.monotonic() < deadline:
        time.sleep(2)
        shown = entered(world, instance)
    checks.that("people get in by the volume's sshd under its own init", "nspawn: the volume's sshd" in shown and "has the base's port 22" in shown, shown)
    text = on_base(world, instance, f". /etc/os-release; echo $PRETTY_NAME; systemctl is-active {SCOPE} warmroot-bootstrap.scope; "
                   f"systemctl show -P ControlGroup {SCOPE}; systemctl status --no-pager -n0 {SCOPE} | tail -20")
    lines = text.splitlines()
    checks.that("the operator gets onto the base by the rescue port", lines[:1] == [BASE_OS], text)
    checks.that("the container is a unit of the base's, beside the bootstrap's", lines[1:3] == ["active", "active"], text)
    world.say(" ".join(text.split())[:600])
    text = on_base(world, instance, "journalctl -o cat -u warmroot-logins.service; systemctl --failed --no-legend --plain")
    checks.that("sshd had not waited longer than it was told, and no unit has failed for it",
                f"sessions land on the base after {LOGIN_WAIT_S} s" in text and "warmroot-logins.service loaded" not in text, text)


def given_back(world, checks, node):
    """A spot notice while somebody is there and a service of the volume's runs."""
    instance = node["instance_id"]
    code, text = session(world, instance, "echo kept > kept; sync; sudo systemd-run --quiet --unit=worker sh -c "
                         "'trap \"echo ended >/var/worker; exit\" TERM; while :; do sleep 1; done'; sleep 2; systemctl is-active worker")
    checks.that("a service of the volume's is left running", code == 0 and text.startswith("active"), text)
    checks.that("a client learns the node's host key", known_host(world, instance, "accept-new") == "in")
    world.say(f"spot notice for {instance}")
    world.post("interrupt", instance=instance)
    wait_for(world, "the volume to be released", lambda row: row.get("stage") == "released" or row.get("instance_id") != instance, BOOT_SECONDS)
    second = ready(world, {instance})
    checks.that("the same volume serves the replacement", second["volume_id"] == node["volume_id"], str(second))
    return second


def replaced(world, checks, node):
    instance = node["instance_id"]
    boots(world, checks, instance)
    checks.that("the replacement shows the node's host key", known_host(world, instance, "yes") == "in")
    code, text = session(world, instance, ". /etc/os-release; echo $PRETTY_NAME; cat kept /var/worker")
    lines = text.splitlines()
    checks.that("what was written is there, and the service had been told to end", code == 0 and VOLUME_OS in text and lines[-2:] == ["kept", "ended"], text)
    steps = steps_of(on_base(world, instance, "cat /run/warmroot/status.json"))
    checks.that("the volume had been left clean", steps["check ext4"]["detail"] == "clean", steps["check ext4"])


def shut_down(world, checks, node):
    """`systemctl poweroff` on the base."""
    instance = node["instance_id"]
    code, text = session(world, instance, "sudo mkdir -p /etc/warmroot/hooks.d && printf '#!/bin/sh\\necho $WARMROOT_REASON >/var/hooked\\n' | "
                         "sudo tee /etc/warmroot/hooks.d/save >/dev/null && sudo chmod 755 /etc/warmroot/hooks.d/save && echo written >unsynced && "
                         "sudo rm /var/worker && sudo systemd-run --quiet --unit=worker sh -c "
                         "'trap \"echo ended >/var/worker; exit\" TERM; while :; do sleep 1; done'")
    checks.that("a hook and a service are put into the volume", code == 0, text)
    world.say(f"systemctl poweroff on {instance}")
    on_base(world, instance, "systemctl poweroff")
    wait_for(world, "the volume to be free", lambda _: world.volume(node["volume_id"])["instance_id"] != instance, BOOT_SECONDS)
    volume = world.path(f"region/volumes/{node['volume_id']}")
    shown = [subprocess.run(["debugfs", "-R", f"cat {path}", f"{volume}?offset=1048576"], capture_output=True, text=True, timeout=60, check=False).stdout
             for path in ("/var/lib/warmroot/state", "/var/hooked", "/home/admin/unsynced", "/var/worker")]
    checks.that("it was left clean by that instance", shown[0] == f"clean {instance}\n", shown)
    checks.that("the hook was run, the service was told to end, and what was written is there", shown[1:] == ["shutdown\n", "written\n", "ended\n"], shown)


def run(checks):
    with cloud_world(DIRECTORY, POOL) as world:
        first = ready(world)
        boots(world, checks, first["instance_id"])
        container_matrix(world, checks, first["instance_id"], "steward", BASE_OS)
        second = given_back(world, checks, first)
        replaced(world, checks, second)
        shut_down(world, checks, second)


def main():
    checks = Checks()
    run_and_exit(checks, DIRECTORY, lambda: run(checks))


if __name__ == "__main__":
    main()
