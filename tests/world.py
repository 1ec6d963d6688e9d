"""One simulated region with real guests and one manager, for demo.py and guest_test.py: starts both programs on loopback,
asks them, runs ssh in the guests, and ends everything that it started. Nothing here decides what is right."""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("WARMROOT_BUILD", os.path.join(TOP, "build", "release"))
IMAGES = os.path.join(TOP, "build", "images")
# What the PRETTY_NAME of a volume's and of a base's system begins with (images.sh).
VOLUME_OS = "Imagenet AMI"
BASE_OS = "warmroot test base"
# Where the region shows its guests the manager (--manager-port); they come from their own addresses, which lie in 127.0.0.0/8.
MANAGER_SEEN_BY_GUESTS = "169.254.0.4:8470"

CATALOG = """\
snapshots = [
  {{ id = "snap-0base000000000001", size_gib = 1, image_file = "{images}/base.img" }},
  {{ id = "snap-0ami0000000000001", size_gib = 4, image_file = "{images}/ami.img" }},
  {{ id = "snap-0arm6400000000001", size_gib = 1, image_file = "{images}/arm64.img" }},
  {{ id = "snap-0twins00000000001", size_gib = 1, image_file = "{images}/base-twins.img" }},
  {{ id = "snap-0xfs0000000000001", size_gib = 1, image_file = "{images}/xfs.img" }},
  {{ id = "snap-0btrfs00000000001", size_gib = 1, image_file = "{images}/btrfs.img" }},
  {{ id = "snap-0noroot0000000001", size_gib = 1, image_file = "{images}/noroot.img" }},
  {{ id = "snap-0cloud00000000001", size_gib = 2, image_file = "{images}/cloud.img" }},
  {{ id = "snap-0public0000000001", size_gib = 2, image_file = "{images}/cloud.img", readable = false }},
  {{ id = "snap-0disk00000000001", size_gib = 3, image_file = "{images}/cloud-disk.img" }},
  {{ id = "snap-0system0000000001", size_gib = 2, image_file = "{images}/system.img" }},
  {{ id = "snap-0debian1100000001", size_gib = 1, image_file = "{images}/base-11.img" }},
  {{ id = "snap-0debian1300000001", size_gib = 1, image_file = "{images}/base-13.img" }},
]
images = [
  {{ id = "ami-0base000000000001", name = "base", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0base000000000001" }},
  {{ id = "ami-0twins000000000001", name = "base with twins", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0twins00000000001" }},
  {{ id = "ami-0cloud00000000001", name = "base with cloud-init", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0cloud00000000001" }},
  {{ id = "ami-0public0000000001", name = "somebody else's, with cloud-init", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0public0000000001", owner_id = "099720109477" }},
  {{ id = "ami-0debian11000000001", name = "base Debian 11", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0debian1100000001" }},
  {{ id = "ami-0debian13000000001", name = "base Debian 13", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0debian1300000001" }},
  {{ id = "ami-0disk000000000001", name = "a disk with cloud-init, for base and volume", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0disk00000000001" }},
  {{ id = "ami-0system00000000001", name = "imagenet with its init", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0system0000000001" }},
  {{ id = "ami-0imagenet00000001", name = "imagenet", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0ami0000000000001" }},
]
subnets = [
  {{ id = "subnet-0a00000000000001", zone = "us-east-1a", cidr = "127.10.0.0/20" }},
  {{ id = "subnet-0b00000000000001", zone = "us-east-1b", cidr = "127.10.16.0/20" }},
]
key_pairs = [ {{ name = "operator", public_key_file = "{images}/id_ed25519.pub" }} ]
"""

POOL = """\
[[pool]]
name    = "{name}"
{source}
zones   = ["us-east-1a"]
nodes   = {nodes}
running = {running}
{group}
[pool.volumes]
type = "gp3"
{volumes}
{session}
"""
LAUNCH = """\
[pool.launch]
base_ami       = "{base_ami}"
instance_types = ["{instance_type}"]
subnets        = {{ us-east-1a = "subnet-0a00000000000001" }}
key_name       = "operator"
{launch}
"""
DEFAULTS = {"base_ami": "ami-0base000000000001", "instance_type": "g5.12xlarge", "launch": "", "group": "", "volumes": "", "session": ""}


def dies_with_parent():
    """In a child: SIGTERM when this Python ends in any way, so that a kill -9 leaves no guest behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class World:
    """The region, the manager and their files below `directory`. `controls` are done before the manager starts."""

    def __init__(self, directory, pools, sim_options=(), controls=(), kernel="vmlinuz"):
        self.directory = directory
        self.kernel = kernel
        self.pools = pools
        self.sim_options = list(sim_options)
        self.controls = controls
        self.started = time.monotonic()
        self.children = []
        self.endpoint = None
        self.manager_port = free_port()
        self.manager = f"http://127.0.0.1:{self.manager_port}"
        os.makedirs(directory, exist_ok=True)

    def elapsed(self):
        return time.monotonic() - self.started

    def say(self, text):
        print(f"[{self.elapsed():6.1f}s] {text}", flush=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
        try:
            self.start_region()
            for what, parameters in self.controls:
                self.post(what, **parameters)
            self.start_manager()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, name, arguments, env=None):
        log = open(self.path(name + ".log"), "wb")
        child = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 env=env, start_new_session=True, preexec_fn=dies_with_parent)
        self.children.append((name, child))
        return child

    def wait_for_line(self, name, child, prefix, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as file:
                for line in file:
                    if line.startswith(prefix):
                        return line[len(prefix):].strip()
            if child.poll() is not None:
                break
            time.sleep(0.05)
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as file:
            raise SystemExit(f"{name} did not start: {file.read()[-600:].strip()}")

    def environment(self):
        env = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        env.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                   AWS_REGION="us-east-1", AWS_ENDPOINT_URL=self.endpoint or "")
        return env

    def start_region(self):
        with open(self.path("catalog.toml"), "w", encoding="utf-8") as file:
            file.write(CATALOG.format(images=IMAGES))
        child = self.start("region", [f"{BUILD}/warmroot-sim", "serve", "--port", "0", "--dir", self.path("region"),
                                      "--catalog", self.path("catalog.toml"), "--kernel", f"{IMAGES}/{self.kernel}",
                                      "--manager-port", str(self.manager_port), *self.sim_options])
        self.endpoint = self.wait_for_line("region", child, "endpoint=", 60)

    def start_manager(self):
        self.write_spec()
        child = self.start("manager", [f"{BUILD}/warmroot", "--spec", self.path("spec.toml"), "--state",
                                       self.path("state"), "serve", "--listen", f"127.0.0.1:{self.manager_port}",
                                       "--identity-certificates", self.path("region/identity.pem")],
                           env=self.environment())
        self.wait_for_line("manager", child, "listening=", 20)

    def stop_manager(self):
        """Until start_manager() nobody decides anything; the region and its guests go on."""
        found = next(pair for pair in self.children if pair[0] == "manager")
        found[1].terminate()
        found[1].wait(timeout=40)
        self.children.remove(found)

    def write_spec(self):
        with open(self.path("spec.toml"), "w", encoding="utf-8") as file:
            file.write(f'deployment  = "demo"\nmanager_url = "http://{MANAGER_SEEN_BY_GUESTS}"\n\n')
            for pool in self.pools:
                text = POOL if pool.get("group") else POOL + LAUNCH
                file.write(text.format(**{**DEFAULTS, **pool}) + "\n")

    def change_pool(self, name, **keys):
        """As an operator does who edits the spec and sends the daemon SIGHUP."""
        self.pools = [{**pool, **keys} if pool["name"] == name else pool for pool in self.pools]
        self.write_spec()
        next(child for kind, child in self.children if kind == "manager").send_signal(signal.SIGHUP)

    def stop(self):
        for _, child in reversed(self.children):
            if child.poll() is None:
                child.terminate()
        for name, child in reversed(self.children):
            try:
                child.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self.say(f"{name} did not end within 40 s; killing it")
                child.kill()
                child.wait()
        self.children = []

    def get(self, url):
        with urllib.request.urlopen(url, timeout=10) as reply:
            return json.load(reply)

    def status(self):
        """The manager's view; dies in words when the manager or the region has ended."""
        for name, child in self.children:
            if child.poll() is not None:
                raise SystemExit(f"{name} ended early with status {child.returncode}; see {self.path(name + '.log')}")
        return self.get(self.manager + "/status")

    def node(self, name, status=None):
        found = [node for node in (status or self.status())["nodes"] if node["node"] == name]
        return found[0] if found else {}

    def region(self):
        return self.get(self.endpoint + "/_control/state")

    def instance(self, instance_id):
        return next(item for item in self.region()["instances"] if item["instance_id"] == instance_id)

    def volume(self, volume_id):
        return next(item for item in self.region()["volumes"] if item["volume_id"] == volume_id)

    def control(self, command, instance_id):
        subprocess.run([f"{BUILD}/warmroot-sim", command, instance_id, "--endpoint-url", self.endpoint], check=True,
                       stdout=subprocess.DEVNULL)

    def post(self, what, **parameters):
        """One order to the region's control, as server.hpp lists them."""
        url = f"{self.endpoint}/_control/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(urllib.request.Request(url, data=b"", method="POST"), timeout=10) as reply:
            return json.load(reply)

    def warmroot(self, *arguments, env=None):
        """Runs the manager's command line beside the daemon's state and returns the completed process."""
        return subprocess.run([f"{BUILD}/warmroot", "--spec", self.path("spec.toml"), "--state", self.path("state"),
                               *arguments], env={**self.environment(), **(env or {})}, capture_output=True, text=True, timeout=120)

    def ssh_command(self, instance_id, user="admin", options=()):
        return ["ssh", *options, "-i", f"{IMAGES}/id_ed25519", "-p", str(self.instance(instance_id)["ssh_port"]),
                "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                "-o", "ConnectTimeout=20", "-o", "BatchMode=yes", f"{user}@127.0.0.1"]

    def ssh(self, instance_id, command, user="admin", seconds=120):
        """What `command` printed in a session on the instance, or the error as text. A session that its guest's reset cut
        hears nothing more: after `seconds` it counts as a connection that failed, 255 as ssh has it."""
        try:
            done = subprocess.run([*self.ssh_command(instance_id, user), command], capture_output=True, text=True,
                                  timeout=seconds, stdin=subprocess.DEVNULL, check=False)
        except subprocess.TimeoutExpired:
            return 255, f"no answer within {seconds} s"
        return done.returncode, (done.stdout + done.stderr).strip()

    def ssh_when_up(self, instance_id, command, user="admin", seconds=60):
        """What `command` printed once the instance's sshd listens."""
        deadline = time.monotonic() + seconds
        while True:
            code, text = self.ssh(instance_id, command, user)
            if code != 255 or time.monotonic() > deadline:
                return text
            time.sleep(0.5)

    def wait(self, what, condition, seconds, every=5, hint=lambda: ""):
        """Polls until `condition(status)` gives something true; a line each `every` seconds says what it waits for, and `hint()`."""
        deadline = time.monotonic() + seconds
        spoken = time.monotonic()
        while True:
            status = self.status()
            result = condition(status)
            if result:
                return result
            if time.monotonic() > deadline:
                raise SystemExit(f"gave up after {seconds} s waiting for {what} {hint()}".rstrip() + f"; logs are in {self.directory}")
            if time.monotonic() - spoken > every:
                spoken = time.monotonic()
                shown = [node for node in status["nodes"] if node.get("instance_id")] or status["nodes"][:4]
                stages = ", ".join(f"{node['node']} {node.get('lease')}/{node.get('stage') or '-'}" for node in shown)
                self.say(f"  waiting for {what} ({stages}) {hint()}".rstrip())
            time.sleep(0.25)
