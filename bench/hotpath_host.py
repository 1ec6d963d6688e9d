"""A machine made of namespaces for bench/hotpath_bench.py: the test images' base system in a mount, network and PID namespace with its
own sshd, a metadata service, and a volume on a loop device that appears as disk /dev/vdz when told to. Runs inside `unshare --mount
--net --pid --fork --mount-proc` (bench/run.sh), so that nothing of the machine outside is touched and all of it ends with the run."""
import ctypes
import http.server
import json
import os
import shutil
import struct
import subprocess
import threading
import time

DISK = "vdz"
SSH_PORT, SCRIPT_PORT = 22, 2022
STATUS = "run/warmroot/status.json"
BOOTSTRAP = "/usr/local/sbin/warmroot-bootstrap"
LIBC = ctypes.CDLL(None, use_errno=True)
MS_NODEV, MS_RELATIME = 4, 1 << 21
IN_MOVED_TO, IN_MODIFY = 0x80, 0x2


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout.strip()


def mount(source, target, kind, flags=0, options=""):
    if LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {source} on {target}")


class Metadata:
    """The instance metadata service, version 2, with a spot notice when one is set."""

    def __init__(self, public_key):
        self.facts = {"meta-data/instance-id": "i-0bench", "meta-data/placement/availability-zone": "us-east-1a",
                      "meta-data/public-keys/0/openssh-key": public_key}
        self.notice = None
        self.noticed_at = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in one packet

            def answer(self, body):
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or "")))
                self.end_headers()
                self.wfile.write((body or "").encode())

            def do_PUT(self):
                self.answer("token")

            def do_GET(self):
                path = self.path.removeprefix("/latest/")
                if path == "meta-data/spot/instance-action" and outer.notice:
                    outer.noticed_at = outer.noticed_at or time.monotonic()
                    self.answer(outer.notice)
                else:
                    self.answer(outer.facts.get(path))

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def interrupt(self):
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120))
        self.noticed_at = None
        self.notice = json.dumps({"action": "terminate", "time": end})


class Watch:
    """Wakes when a name in a directory is replaced, or a file grows; the times are those of the waking."""

    def __init__(self, path, events):
        self.fd = LIBC.inotify_init1(os.O_CLOEXEC)
        if self.fd < 0 or LIBC.inotify_add_watch(self.fd, path.encode(), events) < 0:
            raise OSError(ctypes.get_errno(), f"watching {path}")

    def names(self):
        """Blocks for events; (time, names)."""
        data = os.read(self.fd, 65536)
        now, names, at = time.monotonic(), [], 0
        while at < len(data):
            length = struct.unpack_from("iIII", data, at)[3]
            names.append(data[at + 16:at + 16 + length].rstrip(b"\0").decode())
            at += 16 + length
        return now, names

    def close(self):
        os.close(self.fd)


class Host:
    """The base system, up to sshd. `directory` is made anew."""

    def __init__(self, directory, images, bootstrap):
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        mount("tmpfs", directory, "tmpfs")  # this machine's own disk takes milliseconds for a flush, and not the same each time
        self.directory, self.images = directory, images
        self.root = os.path.join(directory, "base")
        self.loops, self.daemons = [], []
        self.volume_loop = None
        run("ip", "link", "set", "lo", "up")
        self.mount_base()
        shutil.copy(bootstrap, self.inside(BOOTSTRAP[1:]))
        self.key = os.path.join(directory, "key")
        shutil.copy(os.path.join(images, "id_ed25519"), self.key)
        os.chmod(self.key, 0o600)
        with open(os.path.join(images, "id_ed25519.pub"), encoding="utf-8") as file:
            public = file.read().strip()
        self.give_key(public)
        self.metadata = Metadata(public)
        self.up()  # as at boot: sshd is configured before it starts
        self.start_sshd("/etc/ssh/sshd_config", "/tmp/sshd.log")
        self.down()

    def inside(self, path):
        return os.path.join(self.root, path)

    def chroot(self, *command, check=True, **more):
        return subprocess.run(["chroot", self.root, *command], check=check, capture_output=True, text=True, **more)

    def copy_of(self, image):
        copy = os.path.join(self.directory, image)
        run("cp", "--sparse=always", os.path.join(self.images, image), copy)
        return copy

    def attach(self, file, *options):
        """A loop device that goes with its last user, or with this program."""
        loop = run("losetup", "--show", "-f", *options, file)
        self.loops.append(os.open(loop, os.O_RDONLY | os.O_CLOEXEC))
        run("losetup", "-d", loop)
        return loop

    def mount_base(self):
        os.makedirs(self.root)
        mount(self.attach(self.copy_of("base.img")), self.root, "ext4")
        for place, kind, options in (("proc", "proc", ""), ("dev", "tmpfs", "mode=755"), ("run", "tmpfs", "mode=755"), ("tmp", "tmpfs", "mode=1777")):
            mount(kind, self.inside(place), kind, 0, options)
        run("mount", "--rbind", "/sys", self.inside("sys"))
        for node in ("null", "zero", "full", "random", "urandom", "tty"):
            run("cp", "-a", f"/dev/{node}", self.inside("dev"))
        for place in ("dev/pts", "dev/shm", "run/block", "run/spare", "run/sshd", "mnt/volume"):
            os.makedirs(self.inside(place), exist_ok=True)
        mount("devpts", self.inside("dev/pts"), "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5")
        os.symlink("pts/ptmx", self.inside("dev/ptmx"))
        run("mount", "--bind", self.inside("run/block"), self.inside("sys/block"))
        with open(self.inside("etc/resolv.conf"), "w", encoding="utf-8") as file:
            file.write("nameserver 192.0.2.1\n")
        self.chroot("ssh-keygen", "-A")

    def give_key(self, public):
        for home, user in (("root", "0:0"), ("home/admin", "1000:1000")):
            folder = self.inside(f"{home}/.ssh")
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with open(os.path.join(folder, "authorized_keys"), "w", encoding="utf-8") as file:
                file.write(public + "\n")
            run("chown", "-R", user, folder)

    # the volume

    def plug(self, loop):
        """`loop` is what will appear."""
        self.volume_loop = loop
        node = self.inside(f"dev/{DISK}")
        if os.path.lexists(node):
            os.unlink(node)
        run("cp", "-a", loop, node)
        spare = self.inside(f"run/spare/{DISK}")
        os.makedirs(spare + "/queue", exist_ok=True)
        name = os.path.basename(loop)
        for attribute in ("size", "dev"):
            shutil.copyfile(f"/sys/class/block/{name}/{attribute}", os.path.join(spare, attribute))
        with open(os.path.join(spare, "serial"), "w", encoding="utf-8") as file:
            file.write("vol0be9c4\n")

    def appear(self):
        """The disk is there from now on; the moment of it."""
        at = time.monotonic()
        os.rename(self.inside(f"run/spare/{DISK}"), self.inside(f"run/block/{DISK}"))
        with open(f"/sys/class/block/{os.path.basename(self.volume_loop)}/uevent", "w", encoding="utf-8") as file:
            file.write("add")
        return at

    def vanish(self):
        """It can appear again."""
        os.rename(self.inside(f"run/block/{DISK}"), self.inside(f"run/spare/{DISK}"))

    # the bootstrap

    def status(self):
        with open(self.inside(STATUS), encoding="utf-8") as file:
            return json.load(file)

    def up(self, **ticket):
        words = {"version": 1, "deployment": "bench", "pool": "bench", **ticket}
        with open(self.inside("run/ticket"), "w", encoding="utf-8") as file:
            json.dump(words, file)
        self.chroot("env", "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + self.metadata.url, BOOTSTRAP, "up", "--ticket", "/run/ticket")
        self.until(lambda: self.status()["message"] and any(step["name"] == "metadata" for step in self.status()["steps"]), "the bootstrap to wait")

    def when_stage(self, *stages, limit=240):
        """From now on: a thread whose end() says when one of these stages was first seen."""
        return StageWatch(self, stages, limit)

    def down(self):
        done = self.chroot(BOOTSTRAP, "down", check=False)
        if done.returncode != 0:
            raise SystemExit(f"down failed: {done.stdout}{done.stderr}")

    @staticmethod
    def until(condition, what, limit=60):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.01)
        raise SystemExit(f"waited {limit} s for {what}")

    # sshd and its clients

    def start_sshd(self, config, log):
        """sshd in the foreground on the base; its process."""
        daemon = subprocess.Popen(["chroot", self.root, "/usr/sbin/sshd", "-D", "-f", config, "-E", log], stdin=subprocess.DEVNULL)
        self.daemons.append(daemon)
        self.until(lambda: self.listening(log) > 0, "sshd")
        return daemon

    def stop_sshd(self, daemon):
        self.daemons.remove(daemon)
        daemon.terminate()
        daemon.wait()

    def listening(self, log):
        """How often this sshd has begun to listen."""
        try:
            with open(self.inside(log[1:]), encoding="utf-8", errors="replace") as file:
                return sum("Server listening on 0.0.0.0" in line for line in file)
        except FileNotFoundError:
            return 0

    def ssh(self, port, user, command, *options):
        return ["ssh", "-F", "none", "-i", self.key, "-p", str(port), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", *options, f"{user}@127.0.0.1", command]

    def close(self):
        """The mounts go with the namespace."""
        for daemon in self.daemons:
            daemon.terminate()
            daemon.wait()
        for loop in self.loops:
            os.close(loop)


class StageWatch(threading.Thread):
    def __init__(self, host, stages, limit):
        super().__init__(daemon=True)
        self.host, self.stages, self.limit = host, stages, limit
        self.watch = Watch(host.inside("run/warmroot"), IN_MOVED_TO)
        self.at = None
        self.start()

    def run(self):
        while self.at is None:
            now, names = self.watch.names()
            if "status.json" in names:
                stage = self.host.status()["stage"]
                if stage in self.stages:
                    self.at = now
                elif stage == "failed":
                    return

    def end(self):
        self.join(self.limit)
        if self.at is None:
            raise SystemExit(f"the bootstrap did not become {self.stages[0]}: {json.dumps(self.host.status(), indent=1)[:3000]}")
        self.watch.close()
        return self.at
