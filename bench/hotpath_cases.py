"""What bench/hotpath_bench.py measures; each case returns values by name, the unit last in the name."""
import concurrent.futures
import contextlib
import os
import shutil
import socket
import subprocess
import time

from hotpath_host import (DISK, IN_MODIFY, MS_NODEV, MS_RELATIME, SCRIPT_PORT, SSH_PORT, Watch, mount, run)

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT_LOG = "/tmp/sshd-script.log"
LOGINS_PER_SECOND = 100
SLOW_MIB_S = 25
SERVING = ("ready", "warming", "warm")  # the first passes at once where warming is on
SCRIPT_CONFIG = "/etc/ssh/sshd_config_script"


# the contenders of the way in: each returns when sessions were ready, in ms from the disk's appearance

class Bootstrap:
    """`warmroot-bootstrap up`, waiting for its disk: a volume that was handed over, once it had a lease."""

    def __init__(self, host, **ticket):
        self.host, self.ticket = host, ticket
        self.steps = {}

    def prepare(self):
        self.host.up(**self.ticket)

    def step_names(self):
        return [step["name"] for step in self.host.status()["steps"]]

    def go(self):
        watch = self.host.when_stage(*SERVING)
        shown = self.host.appear()
        ready = watch.end()
        return (ready - shown) * 1000

    def undo(self):
        """Gives the volume back as a lease does in which people could log in: the login has been tried, and the volume knows."""
        self.host.until(lambda: "keep the proof" in self.step_names(), "the login to be tried")
        for step in self.host.status()["steps"]:
            self.steps.setdefault(step["name"], []).append(step["ms"])
        self.host.down()
        self.host.vanish()


class FirstUse(Bootstrap):
    """The same on a volume that tells of no lease: marker, proof and host keys are taken away before. The warmer's map stays, so that the
    contenders after this one find no other volume than those before it."""

    def prepare(self):
        point = self.host.inside("mnt/volume")
        mount(self.host.volume_loop, point, "ext4")
        for name in ("state", "proof", "host_keys"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(point, "var/lib/warmroot", name))
        run("umount", point)
        super().prepare()


class Script:
    """The shell script, on an sshd of its own that it reloads."""

    def __init__(self, host):
        self.host = host
        shutil.copy(os.path.join(HERE, "hotpath_script.sh"), host.inside("usr/local/sbin/hotpath-script"))
        os.chmod(host.inside("usr/local/sbin/hotpath-script"), 0o755)
        self.daemon = None

    def write_config(self, root):
        with open(self.host.inside(SCRIPT_CONFIG[1:]), "w", encoding="utf-8") as file:
            file.write(f"Port {SCRIPT_PORT}\nUsePAM yes\nSubsystem sftp /usr/lib/openssh/sftp-server\nMaxStartups 200:30:400\n"
                       f"PidFile none\nPrintMotd no\nChrootDirectory {root}\n")

    def prepare(self):
        self.write_config("none")
        log = self.host.inside(SCRIPT_LOG[1:])
        if os.path.exists(log):
            os.unlink(log)
        self.daemon = self.host.start_sshd(SCRIPT_CONFIG, SCRIPT_LOG)

    def go(self):
        """Until sshd listens again."""
        watch = Watch(self.host.inside(SCRIPT_LOG[1:]), IN_MODIFY)
        shown = self.host.appear()
        self.host.chroot("hotpath-script", f"/dev/{DISK}", SCRIPT_CONFIG, str(self.daemon.pid))
        while True:
            now, _ = watch.names()
            if self.host.listening(SCRIPT_LOG) > 1:
                watch.close()
                return (now - shown) * 1000

    def undo(self):
        self.host.stop_sshd(self.daemon)
        self.host.until(lambda: self.host.chroot("umount", "-R", "/mnt/volume", check=False).returncode == 0, "the script's volume to be free")
        self.host.vanish()


class Mount:
    """The floor: mount(2) of the root alone, writable, with the bootstrap's options."""

    def __init__(self, host):
        self.host = host

    def prepare(self):
        pass

    def go(self):
        start = time.monotonic()
        point = self.host.inside("mnt/volume")
        mount(self.host.volume_loop, point, "ext4", MS_NODEV | MS_RELATIME)
        return (time.monotonic() - start) * 1000

    def undo(self):
        run("umount", self.host.inside("mnt/volume"))


def ready(host, draw, repetitions):
    """From the disk's appearance until sessions land in the volume, which its last lease has left clean: there they are switched over
    before the login is tried. The first use is beside it, where it is tried first. A first repetition of each is thrown away: it makes the
    host keys, tries the login and brings the volume into memory."""
    plug_fast(host)
    contenders = {"bootstrap": Bootstrap(host), "bootstrap without host keys": Bootstrap(host, session={"host_keys": False}),
                  "bootstrap, first use": FirstUse(host), "script": Script(host), "mount(2) alone": Mount(host)}
    values = {name: [] for name in contenders}
    for repetition in range(repetitions + 1):
        order = list(contenders)
        draw.shuffle(order)
        for name in order:
            contenders[name].prepare()
            took = contenders[name].go()
            contenders[name].undo()
            if repetition > 0:
                values[name].append(took)
    figures = {f"{name}, ms": each for name, each in values.items()}
    figures["bootstrap beyond mount(2), ms"] = [a - b for a, b in zip(values["bootstrap"], values["mount(2) alone"])]
    figures["script / bootstrap"] = [a / b for a, b in zip(values["script"], values["bootstrap"])]
    for step, each in contenders["bootstrap"].steps.items():
        if len(each) > 1:  # what comes behind the login that was tried may be cut short
            figures[f"step: {step}, ms"] = each[1:]
    return figures


def plug_fast(host):
    host.plug(host.attach(host.copy_of("ami.img"), "-o", str(1 << 20), "--sizelimit", str(4094 << 20)))


# sessions while they are switched over

class Clients:
    """Connections at a fixed rate, whoever is late: each reads sshd's banner; each tenth is a login by the stock client, which says where
    it landed. Full logins at that rate are more than two processors do."""

    def __init__(self, host, port):
        self.command = host.ssh(port, "admin", ". /etc/os-release; echo $VARIANT_ID in")
        self.port = port
        self.logins = []  # (began, ended, status, what it saw)
        self.connections, self.refused = 0, 0
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=64)

    def log_in(self):
        began = time.monotonic()
        done = subprocess.run(self.command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.logins.append((began, time.monotonic(), done.returncode, done.stdout.strip()))

    def connect(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def come(self, seconds, until=lambda: True):
        """For so long, and then until the condition holds."""
        waiting, start, number = [], time.monotonic(), 0
        while number < seconds * LOGINS_PER_SECOND or not until():
            time.sleep(max(0.0, start + number / LOGINS_PER_SECOND - time.monotonic()))
            if number % 10 == 0:
                self.pool.submit(self.log_in)
            else:
                waiting.append(self.pool.submit(self.connect))
            number += 1
        self.connections += number
        self.refused += sum(not each.result() for each in waiting)

    def end(self):
        self.pool.shutdown()
        self.refused += sum(login[2] != 0 for login in self.logins)


def switch_over(host, draw, repetitions):
    """Refused: no banner, or a login with an error. Misdirected: a login that began after sessions were ready and landed on the base, or
    ended before the disk was there and landed in the volume."""
    plug_fast(host)
    contenders = {"bootstrap": (Bootstrap(host), SSH_PORT), "script": (Script(host), SCRIPT_PORT)}
    figures = {}
    for _ in range(max(1, repetitions // 4)):
        order = list(contenders)
        draw.shuffle(order)
        for name in order:
            contender, port = contenders[name]
            contender.prepare()
            clients = Clients(host, port)
            clients.come(1)
            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor() as other:
                switching = other.submit(contender.go)
                clients.come(0.1, switching.done)
                end = begin + switching.result() / 1000
            clients.come(1)
            clients.end()
            contender.undo()
            inside = [(login[0] > end, login[1] < begin, "warmroot-ami" in login[3]) for login in clients.logins if login[2] == 0]
            seen = {"connections": clients.connections, "refused": clients.refused, "logins": len(clients.logins),
                    "logins begun after the switch": sum(after for after, _, _ in inside),
                    "misdirected": sum((after and not volume) or (before and volume) for after, before, volume in inside)}
            for what, value in seen.items():
                figures.setdefault(f"{name}: {what}", []).append(value)
    return figures


# the way out

def noticed(host):
    """Seconds from the answer in which the notice was read until the volume is released, and the release's timeline."""
    watch = host.when_stage("released")
    host.metadata.interrupt()
    released = watch.end()
    host.metadata.notice = None
    host.vanish()
    return released - host.metadata.noticed_at


def release_idle(host, _, repetitions):
    plug_fast(host)
    took = []
    for _ in range(max(3, repetitions // 2)):
        contender = Bootstrap(host)
        contender.prepare()
        contender.go()
        host.until(lambda: host.status()["stage"] == "warm", "the warmer")
        took.append(noticed(host))
    return {"notice read to released, idle, s": took}


class SlowVolume:
    """The AMI's partition behind hotpath_volume."""

    def __init__(self, host, mib_s):
        image = host.copy_of("ami.img")
        folders = [os.path.join(host.directory, name) for name in ("slow", "slow-backing")]
        program = os.path.join(host.images, "..", "release", "hotpath_volume")
        self.server = subprocess.Popen([program, *folders, image, str(4096 << 20), str(mib_s)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.server.stdout.readline() != "serving\n":
            raise SystemExit("hotpath_volume does not serve")
        host.plug(host.attach(os.path.join(folders[0], "volume"), "--direct-io=on", "-o", str(1 << 20), "--sizelimit", str(4094 << 20)))


def dirty_mib(device):
    with open(f"/sys/kernel/debug/bdi/{device}/stats", encoding="utf-8") as file:
        words = dict(line.split(":") for line in file if ":" in line)
    return sum(int(words[key].split()[0]) for key in ("BdiReclaimable", "BdiWriteback")) / 1024


def release_busy(host, _, repetitions):
    """50 sessions by the stock client that write all the time, half of them deaf to SIGHUP and SIGTERM, on a volume of so many MiB/s."""
    subprocess.run(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"], check=False, capture_output=True)
    SlowVolume(host, SLOW_MIB_S)
    device = open(f"/sys/class/block/{os.path.basename(host.volume_loop)}/dev", encoding="utf-8").read().strip()
    figures = {"notice read to released, busy, s": [], "dirty at the notice, MiB": []}
    for _ in range(max(1, repetitions // 10)):
        contender = Bootstrap(host, session={"write_mib_s": SLOW_MIB_S}, warm={"enabled": False})
        contender.prepare()
        contender.go()
        clients = []
        for number in range(50):
            deaf = "trap '' HUP TERM; " if number % 2 else ""
            words = f"{deaf}while :; do dd if=/dev/zero of=$HOME/busy.{number} bs=1M count=8 conv=notrunc 2>/dev/null; done"
            clients.append(subprocess.Popen(host.ssh(SSH_PORT, "admin", words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        bound = SLOW_MIB_S * 10
        # With strict_limit the kernel holds writers between half of the bound and all of it.
        host.until(lambda: dirty_mib(device) > 0.5 * bound, "memory to be dirty", 120)
        time.sleep(10)  # how long the sessions go on writing against the bound
        figures["dirty at the notice, MiB"].append(dirty_mib(device))
        figures["notice read to released, busy, s"].append(noticed(host))
        for step in host.status()["steps"]:
            if step["name"] in ("warn sessions", "end sessions", "mark clean", "sync", "unmount"):
                figures.setdefault(f"step: {step['name']}, s", []).append(step["ms"] / 1000)
        for client in clients:
            client.wait(60)
    return figures


CASES = {"ready": ready, "switch-over": switch_over, "release-idle": release_idle, "release-busy": release_busy}
