"""The rendered user-data on a base system as AMIs have it: a guest of the simulated region boots Debian with systemd,
cloud-init (EC2 data source) and OpenSSH, and everything from the metadata service to a person's session happens by itself.
Then what only such a system shows: mounts are shared with every service, services have mount namespaces of their own,
and init itself unmounts and ends things at a shutdown. Each check is a line; ends with `N passed, N failed`.
Slow, some minutes a boot without KVM: `ctest -L slow`, tests/run.sh --all. Needs `sh tests/sim/images.sh cloud`."""
import json
import os
import re
import subprocess
import time

from guest_test import Checks, run_and_exit
from session_matrix import system_matrix
from world import IMAGES, TOP, VOLUME_OS, World

DIRECTORY = os.path.join(TOP, "build", "cloud_init_test")
# The operator's own part of user-data: a person who lands on the base, by the group that warmroot leaves there. Cloud-init
# makes them before its default user, which gets the next uid after the highest: theirs is not a person's, or admin would not
# have the volume's 1000.
OPERATORS_PART = """#cloud-config
groups: [warmroot-base]
users:
  - default
  - name: steward
    uid: 900
    groups: [warmroot-base]
    shell: /bin/bash
    sudo: "ALL=(ALL) NOPASSWD:ALL"
    ssh_authorized_keys: ["{key}"]
"""
POOL = {"name": "imagenet", "source": 'ami     = "ami-0imagenet00000001"', "nodes": 1, "running": 1,
        "base_ami": "ami-0cloud00000000001", "launch": 'user_data = "operators_part"'}
# The first volume comes late: sshd would be started long before it is there.
CREATING_MS = 300_000
PATIENT = "[pool.session]\nlogin_wait_s = 600"
NODE = "imagenet-0"
BASE_OS = "warmroot test base (Debian 12 with cloud-init)"
SESSION_STAGES = ("ready", "warming", "warm")
# Emulated, beside other work, a boot takes three to six minutes to user-data.
BOOT_SECONDS = 1500
SSHD_SECONDS = 900
COMMAND_SECONDS = 600
# The instance is looked at after it has given its volume back; without this EC2 would have taken it by then.
NOTICE_MS = 600_000
VOLUME = "/run/warmroot/private/volume"
KEEPER = "warmroot-test-keeper"
PRIVATE = "warmroot-test-private"


def session(world, instance, command, options=()):
    """As World.ssh, for a guest that takes a minute to shake hands."""
    done = subprocess.run([*world.ssh_command(instance, options=("-o", "ConnectTimeout=180", *options)), command], capture_output=True,
                          text=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def known_host(world, instance, checking):
    """A login by a client that knows the node by its name: `accept-new` learns its host key, `yes` insists on it."""
    return session(world, instance, "echo in", ("-o", f"UserKnownHostsFile={world.path('known_hosts')}", "-o", f"HostKeyAlias={NODE}",
                                                "-o", f"StrictHostKeyChecking={checking}"))[1]


def console_end(world, instance):
    """The last line of the guest's serial console, for progress."""
    try:
        with open(world.path(f"region/machines/{instance}.console"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            return lines[-1][:100] if lines else "-"
    except FileNotFoundError:
        return "-"


def wait_for(world, what, condition, seconds):
    """As World.wait, of the node, for minutes: with the guest's own last word."""
    return world.wait(what, lambda status: condition(world.node(NODE, status)), seconds, every=20,
                      hint=lambda: console_end(world, world.node(NODE).get("instance_id")))


def ready(world, not_on=()):
    def condition(node):
        if node.get("instance_id") in (None, *not_on):
            return None
        if node.get("stage") == "failed":
            raise SystemExit(f"{NODE} failed: {(node.get('status') or {}).get('message', '')}")
        return node if node.get("stage") in SESSION_STAGES else None

    node = wait_for(world, f"sessions on {NODE}", condition, BOOT_SECONDS)
    world.say(f"{node['instance_id']} is ready for sessions")
    # The bootstrap comes before sshd, which waits for the rest of cloud-init's stage.
    code, text = 255, ""
    deadline = time.monotonic() + SSHD_SECONDS
    while code == 255 and time.monotonic() < deadline:
        time.sleep(1)
        code, text = session(world, node["instance_id"], "true")
    world.say(f"first login: {code} {text}")
    return node


class Base:
    """Commands of the operator, as root on the base; one connection for all of them."""

    def __init__(self, world, instance):
        self.command = world.ssh_command(instance, "steward", ("-o", "ControlMaster=auto", "-o", "ControlPersist=yes",
                                                               "-o", f"ControlPath={world.path('%C')}", "-o", "ConnectTimeout=180"))
        wait = time.monotonic() + SSHD_SECONDS
        while self.run("echo in") != "in" and time.monotonic() < wait:
            time.sleep(1)

    def run(self, command):
        """What it printed, and any error."""
        done = subprocess.run([*self.command, "sudo sh -s"], input=command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
        return (done.stdout + done.stderr).strip()

    def close(self):
        subprocess.run([*self.command[:-1], "-O", "exit", self.command[-1]], capture_output=True, timeout=60, check=False)


def steps_of(text):
    return {step["name"]: step for step in json.loads(text)["steps"]}


def base_mounts(mountinfo):
    """What init's namespace has mounted that is neither ours nor a person's runtime directory."""
    points = [line.split()[4] for line in mountinfo.splitlines() if len(line.split()) > 4]
    return sorted(point for point in points if not point.startswith(("/run/warmroot", "/run/user/", "/run/credentials")))


def boots(world, checks, node, base):
    """Everything up to the session has happened by itself."""
    code, text = session(world, node["instance_id"], ". /etc/os-release; echo $PRETTY_NAME; id -un; echo kept > kept; sync; "
                           'test -w "$XDG_RUNTIME_DIR" && echo runtime directory')
    checks.that("a session by the stock client lands in the volume", code == 0 and VOLUME_OS in text and "admin" in text, text)
    checks.that("its XDG_RUNTIME_DIR is there", "runtime directory" in text, text)
    text = base.run(". /etc/os-release; echo $PRETTY_NAME; dpkg-query -W cloud-init openssh-server systemd-sysv; cat /proc/self/cgroup; "
                    "systemctl is-active warmroot-bootstrap.scope")
    world.say(" ".join(text.split()))
    checks.that("who is in the group warmroot-base lands on the base, by the operator's part of user-data", BASE_OS in text, text)
    checks.that("cloud-init is 22.4 and the bootstrap is a unit of its own", "cloud-init\t22.4" in text and text.endswith("\nactive"), text)
    steps = steps_of(base.run("cat /run/warmroot/status.json"))
    checks.that("the boothook came before sshd", "loaded when sshd starts" in steps["configure sshd"]["detail"], steps["configure sshd"])
    checks.that("a client learns the node's host key", known_host(world, node["instance_id"], "accept-new") == "in")


def logins_waited(checks, base):
    """When the volume was there, and when what sshd waits for by itself, and sshd were; since the kernel's start."""
    text = base.run("journalctl -o short-monotonic -u warmroot-logins.service | grep 'sessions land in the volume'; "
                    "systemctl show -P ActiveEnterTimestampMonotonic cloud-init.service ssh.service | grep .")
    told = re.search(r"\[ *([0-9.]+)\].*sessions land in the volume, after [0-9.]+ s\n([0-9]+)\n([0-9]+)$", text)
    checks.that("the volume came when nothing else kept sshd waiting any more", told and int(told[2]) / 1e6 + 20 < float(told[1]), text)
    checks.that("sshd was started once sessions land in the volume, not before",
                told and int(told[3]) / 1e6 >= float(told[1]), text)


def ended_well(world, checks, base):
    """The rest of cloud-init goes on behind the first sessions."""
    wait_for(world, "the end of cloud-init", lambda _: base.run("cat /run/cloud-init/result.json 2>&1").startswith("{"), BOOT_SECONDS)
    text = base.run("cat /run/cloud-init/result.json; echo failed: $(systemctl --failed --no-legend --plain | cut -d' ' -f1)")
    checks.that("cloud-init knew EC2 by its firmware and metadata", "DataSourceEc2Local" in text, text)
    checks.that("it ended without an error", '"errors": []' in text, text)
    checks.that("no unit has failed", text.endswith("failed:"), text)


def begun_anew(world, checks, instance, base):
    """The daemon is killed while somebody is in the volume."""
    with subprocess.Popen([*world.ssh_command(instance), "echo in; read line; echo $line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as person:
        checks.that("somebody is in the volume", person.stdout.readline() == "in\n")
        text = base.run("pid=/run/warmroot/bootstrap.pid; before=$(cat $pid); kill -9 $before; n=0; until [ $(cat $pid) != $before ] && "
                        "grep -q '\"stage\": *\"warm' /run/warmroot/status.json || [ $n = 90 ]; do n=$((n+1)); sleep 1; done; echo $n; "
                        "systemctl is-active warmroot-bootstrap.scope; "
                        "for p in $(cat /sys/fs/cgroup/system.slice/warmroot-bootstrap.scope/cgroup.procs); do cat /proc/$p/comm; done")
        seconds, active, *names = text.splitlines()
        checks.that("a daemon that is killed is begun anew, in the same unit", int(seconds) < 90 and active == "active" and names.count("warmroot-bootst") == 2,
                    text)
        person.stdin.write("still here\n")
        person.stdin.flush()
        checks.that("who is in the volume stays", person.stdout.readline() == "still here\n")
    code, text = session(world, instance, ". /etc/os-release; echo $PRETTY_NAME")
    checks.that("new sessions land there", code == 0 and VOLUME_OS in text, text)


def shared_mounts(world, checks, base):
    """The mounts of the base before the release, and two services that have copies of the volume's."""
    text = base.run(f"findmnt -no PROPAGATION /; cat /proc/1/mountinfo; "
                    f"systemd-run --quiet --unit={PRIVATE} -p PrivateTmp=yes sleep 1d; "
                    f"systemd-run --quiet --unit={KEEPER} -p PrivateMounts=yes -p MountFlags=private sleep 1d; sleep 3; "
                    f"for u in {PRIVATE} {KEEPER}; do grep -c ' {VOLUME} ' /proc/$(systemctl show -P MainPID $u)/mountinfo; done")
    lines = text.splitlines()
    checks.that("mounts of the base are shared", lines[0] == "shared", lines[0])
    checks.that("services started meanwhile have the volume in their namespaces", lines[-2:] == ["1", "1"], lines[-2:])
    return base_mounts("\n".join(lines[1:-2]))


def given_back(world, checks, node, base, mounts_before):
    """A spot notice under shared propagation, while a service has a copy of the mount to itself."""
    instance = node["instance_id"]
    code, text = session(world, instance, "nohup sleep 1d >/dev/null 2>&1 & sleep 1; echo left")
    checks.that("a program is left running in the volume", code == 0 and text == "left", text)
    code, text = session(world, instance, "d=/etc/warmroot/hooks.d; sudo mkdir -p $d; printf '#!/bin/sh\\nsleep 30\\n' | sudo tee $d/wait; sudo chmod 755 $d/wait")
    checks.that("a hook is left that takes half a minute", code == 0, text)
    world.say(f"spot notice for {instance}")
    world.post("interrupt", instance=instance)
    # The manager ends the instance soon after the release: all of this happens while the hook runs, or at once after.
    wait_for(world, "new sessions to be refused", lambda _: session(world, instance, "true")[0] == 255, 300)
    code, text = session(world, instance, "tty", ("-tt", "-o", "LogLevel=INFO"))
    checks.that("a login with a terminal is refused meanwhile, and told why", code == 255 and "new sessions are refused" in text, f"{code} {text}")
    text = base.run('n=0; until grep -q \'"stage": *"released"\' /run/warmroot/status.json || [ $n = 60 ]; do n=$((n+1)); sleep 1; done; '
                    "cat /run/warmroot/status.json; echo; echo =====; cat /proc/1/mountinfo; echo =====; "
                    f"grep -sl ' {VOLUME}' /proc/[0-9]*/mountinfo; echo =====; systemctl is-active {PRIVATE} {KEEPER}; systemctl show -P MainPID {KEEPER}; "
                    "systemctl list-units --all --plain --no-legend 'run-warmroot-*.mount' --state=active")
    status, mountinfo, holding, units = (part.strip() for part in text.split("====="))
    checks.that("the volume was released", json.loads(status)["stage"] == "released", status[-600:])
    mounts_after = base_mounts(mountinfo)
    checks.that("everything that the base had mounted is mounted still", mounts_after == mounts_before,
                f"gone {sorted(set(mounts_before) - set(mounts_after))} new {sorted(set(mounts_after) - set(mounts_before))}")
    checks.that("among it /dev/pts, /proc, /sys and /run", {"/dev/pts", "/dev/shm", "/proc", "/sys", "/run"} <= set(mounts_after), mounts_after)
    checks.that("no mount of the volume is left in any namespace", holding == "", holding)
    keeper = units.splitlines()[-1]
    checks.that("a service with a private copy of the mount loses the copy and runs on, as one with a private /tmp does, and systemd knows of no mount of ours",
                units == f"active\nactive\n{keeper}" and f"a copy of the mount was taken from sleep ({keeper})" in status, units + status[-900:])


def replaced(world, checks, first):
    node = ready(world, {first["instance_id"]})
    checks.that("the same volume serves the replacement", node["volume_id"] == first["volume_id"], str(node))
    shown = known_host(world, node["instance_id"], "yes")
    checks.that("the replacement shows the node's host key", shown == "in", shown)
    base = Base(world, node["instance_id"])
    steps = steps_of(base.run("cat /run/warmroot/status.json"))
    checks.that("the volume had been left clean", steps["check ext4"]["detail"] == "clean", steps["check ext4"])
    return node, base


def rebooted(world, checks, node, base):
    """`systemctl reboot`: init's own order of things, in which the bootstrap has to come before everything it needs. The instance comes back."""
    instance = node["instance_id"]
    code, text = session(world, instance, "cat kept && sudo mkdir -p /etc/warmroot/hooks.d && printf '#!/bin/sh\\necho $WARMROOT_REASON "
                           "$(test -e /dev/null && echo with /dev) >/var/hooked\\n' | sudo tee /etc/warmroot/hooks.d/save >/dev/null && "
                           "sudo chmod 755 /etc/warmroot/hooks.d/save && echo written >unsynced && cat /proc/sys/kernel/random/boot_id")
    before = text.split()[-1]
    checks.that("what was written before the notice is there", code == 0 and text.startswith("kept\n"), text)
    world.say(f"systemctl reboot on {instance}")
    base.run("systemctl reboot")
    base.close()
    wait_for(world, "the node to say that it reboots", lambda row: "rebooting" in (row.get("stage_received") or {}) or row.get("instance_id") != instance,
             BOOT_SECONDS)
    again = ready(world)
    checks.that("the same instance comes back with the same volume", (again["instance_id"], again["volume_id"]) == (instance, node["volume_id"]), str(again))
    stages = again["stage_received"]
    checks.that("it said that it reboots, and gave nothing back", "rebooting" in stages and not {"draining", "released"} & set(stages), str(stages))
    code, text = session(world, instance, ". /etc/os-release; echo $PRETTY_NAME; cat kept unsynced /var/hooked /proc/sys/kernel/random/boot_id")
    lines = text.splitlines()
    checks.that("the next boot leads sessions into it, with what was written", code == 0 and VOLUME_OS in text and lines[1:3] == ["kept", "written"]
                and lines[-1] != before, text)
    checks.that("the hook was run in a whole system", lines[3:4] == ["reboot with /dev"], text)
    shown = known_host(world, instance, "yes")
    checks.that("it shows the node's host key", shown == "in", shown)
    base = Base(world, instance)
    steps = steps_of(base.run("cat /run/warmroot/status.json"))
    checks.that("the volume had been left clean", steps["check ext4"]["detail"] == "clean", steps["check ext4"])
    text = base.run("ls /var/lib/warmroot")
    checks.that("nothing of its key is left on the base's disk", "bin" in text.split() and "reboot-key" not in text, text)
    base.close()
    with open(world.path("manager.log"), encoding="utf-8", errors="replace") as file:
        anew = [line for line in file if instance in line and ("new key" in line or "second hello" in line or "DetachVolume" in line)]
    checks.that("its key goes on, and the manager has detached nothing", anew == [], "".join(anew))


def cloud_world(directory, pool, *options, kernel="vmlinuz-cloud"):
    """A world whose guests boot a base with systemd and cloud-init, with the operator's part of user-data beside ours."""
    os.makedirs(directory)
    with open(f"{IMAGES}/id_ed25519.pub", encoding="ascii") as key, open(f"{directory}/operators_part", "w", encoding="ascii") as part:
        part.write(OPERATORS_PART.format(key=key.read().strip()))
    return World(directory, [pool], ("--notice-ms", str(NOTICE_MS), *options), kernel=kernel)


def run(checks):
    with cloud_world(DIRECTORY, {**POOL, "session": PATIENT}, "--creating-ms", str(CREATING_MS)) as world:
        first = ready(world)
        base = Base(world, first["instance_id"])
        boots(world, checks, first, base)
        logins_waited(checks, base)
        ended_well(world, checks, base)
        system_matrix(world, checks, first["instance_id"])
        begun_anew(world, checks, first["instance_id"], base)
        mounts = shared_mounts(world, checks, base)
        given_back(world, checks, first, base, mounts)
        base.close()
        second, base = replaced(world, checks, first)
        rebooted(world, checks, second, base)


def main():
    checks = Checks()
    run_and_exit(checks, DIRECTORY, lambda: run(checks))


if __name__ == "__main__":
    main()
