"""What a session on a warm root is like, beside one on a machine of its own: every case by the stock OpenSSH client against
a guest's sshd, by each way in (`session.entry`), marked as it was found. README.md holds the table of it (session_table.py).
Called by guest_test.py and the slow tests. Cases share connections (ControlMaster) where that changes nothing of what is tried."""
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time

from session_channels import agent, forwards, transfers, x11
from session_table import CANNOT, DIFFERS, WORKS, cell, compare_with_readme
from world import BASE_OS, IMAGES, VOLUME_OS, dies_with_parent

RESCUE_PORT = 2222
NEWCOMERS = 25


class Matrix:
    """The rows found, and one ssh configuration that names the guest `node`. `entry` is the way in, `operator` who gets in by
    the rescue port, `base` what /etc/os-release calls the system there."""

    def __init__(self, world, checks, instance, title, entry="chroot", operator="root", base=BASE_OS):
        self.world, self.checks, self.title = world, checks, title
        self.entry, self.operator, self.base = entry, operator, base
        self.rows = {}
        self.config = world.path("ssh_config")
        self.instance = instance
        self.masters = []
        port = world.instance(instance)["ssh_port"]
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f"Host node shared\n  HostName 127.0.0.1\n  Port {port}\n"
                       f"Host shared behind rescue\n  ControlPath {world.directory}/%C-%r\n  SendEnv LC_WARMROOT LC_CTYPE\n"
                       f"Host behind rescue\n  HostName 127.0.0.1\n  ProxyJump shared\n  ControlPath none\n"
                       f"Host rescue\n  Port {RESCUE_PORT}\n"
                       f"Host *\n  User admin\n  IdentityFile {IMAGES}/id_ed25519\n  BatchMode yes\n  ConnectTimeout 30\n"
                       "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n")

    def row(self, case, mark, how, good, detail=""):
        """Records a case; `how` says in the table in what it differs or why it cannot."""
        self.rows[case] = cell(mark, how)
        self.checks.that(f"{self.title}: {case} ({mark})", good, str(detail)[-600:])

    def own(self, chroot, otherwise):
        """By `chroot` people have the base's sshd with its PAM, otherwise the volume's."""
        return chroot if self.entry == "chroot" else otherwise

    def ssh(self, command, host="shared", options=(), env=None, seconds=300, stdin=subprocess.DEVNULL):
        return subprocess.run(["ssh", "-F", self.config, *options, host, *([command] if command else [])], capture_output=True, text=True,
                              timeout=seconds, check=False, stdin=stdin, env={**os.environ, **(env or {})})

    def share(self, path=None):
        """Opens a connection for many sessions: the usual one, or one at `path`."""
        options = ["-o", f"ControlPath={path}"] if path else []
        subprocess.run(["ssh", "-F", self.config, *options, "-fNM", "shared"], check=True, timeout=300, stdin=subprocess.DEVNULL)
        self.masters.append(options)

    def unshare(self):
        while self.masters:
            self.control("exit", options=self.masters.pop())

    def control(self, *order, options=()):
        return subprocess.run(["ssh", "-F", self.config, *options, "-O", *order, "shared"], capture_output=True, text=True, timeout=300, check=False)

    def forward(self, flag, what):
        return self.control("forward", flag, what).stdout.strip()


def facts_of(text):
    """KEY=VALUE lines of a script."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def commands(m):
    done = m.ssh(". /etc/os-release; echo os=$PRETTY_NAME; echo home=$HOME; echo user=$(id -un); echo tty=$(tty); exit 37")
    facts = facts_of(done.stdout)
    m.row("a command, its output and exit code", WORKS, "", done.returncode == 37 and facts["user"] == "admin" and facts["home"] == "/home/admin"
          and VOLUME_OS in facts["os"], done)
    m.row("no pty unless asked for", WORKS, "", facts["tty"] == "not a tty", done.stdout)
    done = m.ssh("kill -TERM $$; sleep 60")
    m.row("a command that a signal ends", WORKS, "", done.returncode == 255, done)
    m.row("the volume's own programs and data", WORKS, "",
          m.ssh("python3 -c 'import numpy; print(numpy.arange(4).sum())'").stdout == "6\n")
    done = m.ssh("/run/warmroot/bin/warmroot-bootstrap status && /run/warmroot/bin/warmroot-bootstrap wait")
    m.row("the state of the volume and of warming", WORKS, "`/run/warmroot/bin/warmroot-bootstrap status`",
          done.returncode == 0 and "timeline" in done.stdout and "sessions land in the volume" in done.stdout, done)
    done = m.control("check")
    m.row("many sessions on one connection (ControlMaster)", WORKS, "", "Master running" in done.stderr, done)
    done = m.ssh("echo $LC_WARMROOT; locale charmap", env={"LC_WARMROOT": "sent", "LC_CTYPE": "C.UTF-8"})
    m.row("environment and locale that the client sends", WORKS, f"what the {m.own('base', 'volume')}'s AcceptEnv lets in", done.stdout == "sent\nUTF-8\n", done)


def terminal(m):
    """One login on a pty: login shell, window change, interrupt."""
    pid, fd = pty.fork()
    if pid == 0:
        dies_with_parent()
        os.execvp("ssh", ["ssh", "-F", m.config, "-tt", "shared"])
    shown = ""

    def until(pattern):
        nonlocal shown
        deadline = time.monotonic() + 60
        while not (found := re.search(pattern, shown)) and time.monotonic() < deadline:
            if select.select([fd], [], [], 1)[0]:
                try:
                    shown += os.read(fd, 4096).decode(errors="replace")
                except OSError:
                    break
        if found:
            shown = shown[found.end():]
        return found

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 99, 0, 0))
    os.write(fd, b"echo I am $0 on $(tty), now$(echo)ready\n")
    found = until(r"I am (\S+) on (/dev/pts/\d+), nowready")
    m.row("a login shell on a pty", WORKS, "", bool(found) and found.group(1) == "-bash", shown)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 42, 120, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    os.write(fd, b"until stty size | grep -q '42 120'; do :; done; echo size$(echo)seen\n")
    m.row("a change of the window's size", WORKS, "", bool(until("sizeseen")), shown)
    # The program itself says that it runs: before that, the terminal may still be the shell's.
    os.write(fd, b"sh -c 'echo now\"\"asleep; exec sleep 600'\n")
    until("nowasleep")
    os.write(fd, b"\x03")
    os.write(fd, b"echo interrupted $?.\n")
    m.row("Ctrl-C", WORKS, "", bool(until(r"interrupted 130\.")), shown)
    os.write(fd, b"exit 5\n")
    while until(r"\n"):
        pass
    os.close(fd)
    m.checks.that("the login shell's exit code comes back", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5)


SURROUNDINGS = """echo files=$(ulimit -n); echo umask=$(umask); echo zone=$(date +%Z); echo host=$(uname -n); echo name=$(cat /etc/hostname)
test -w /dev/shm && test -c /dev/null && test -e /dev/pts/ptmx && echo dev=1; test -r /proc/self/status && echo proc=1
echo bootstraps=$(ps ax | grep -c '[w]armroot-bootstrap'); test -d /sys/class/net && echo sys=1; test -d /run/lock && echo run=1; test -w /tmp && echo tmp=1
echo dns=$(grep -c ^nameserver /etc/resolv.conf; getent hosts localhost >/dev/null && echo found)
echo sudo=$(sudo -n id -u 2>/dev/null); echo su=$(sudo -n su - researcher -c 'id -un' 2>/dev/null)
echo shell=$SHELL; echo from=${SSH_CONNECTION##* }; test -e /run/sshd.pid && echo pid=1"""
SERVICES = """systemctl start ssh >/tmp/start 2>&1; echo start=$?:$(tr '\n' ' ' </tmp/start)
sudo -n systemctl start ssh >/tmp/start 2>&1; echo rootstart=$?:$(tr '\n' ' ' </tmp/start)"""


def surroundings(m):
    done = m.ssh(SURROUNDINGS)
    facts = facts_of(done.stdout)
    says = lambda key, value: facts.get(key) == value  # noqa: E731
    limits = {"chroot": ("2048", "0027"), "sshd": (facts.get("files"), "0022"), "nspawn": ("3072", "0022")}[m.entry]
    m.row("limits and umask", m.own(DIFFERS, WORKS), m.own("the base's PAM and its `/etc/security` set them", "the volume's PAM sets them"),
          (facts.get("files"), facts.get("umask")) == limits and (m.entry == "chroot" or facts.get("files") not in (None, "2048")), done)
    m.row("time zone", WORKS, "the volume's", says("zone", "VOL"), done)
    if m.entry == "nspawn":
        m.row("`hostname`", WORKS, "the volume's", says("host", "imagenet-ami") and says("name", "imagenet-ami"), done)
        m.row("/proc, `ps`", WORKS, "the container's processes alone", says("proc", "1") and says("bootstraps", "0"), done)
    else:
        m.row("`hostname`", DIFFERS, "the base's; `/etc/hostname` is the volume's", says("host", "base") and says("name", "imagenet-ami"), done)
        m.row("/proc, `ps`", DIFFERS, "shows the base's processes too", says("proc", "1") and facts.get("bootstraps", "0") != "0", done)
    m.row("/dev, /dev/shm, /dev/pts, /sys, /tmp", WORKS, "", says("dev", "1") and says("sys", "1") and says("tmp", "1"), done)
    # What the base's sshd and the volume's leave in a /run tells whose it is.
    how = (WORKS, "new at each boot") if m.entry == "nspawn" else (DIFFERS, "new at each lease, as after a boot")
    m.row("/run", *how, says("run", "1") and facts.get("pid") == m.own(None, "1"), done)
    m.row("DNS", WORKS, "by the base's resolv.conf (`localhost` alone was asked for)", facts.get("dns", "0")[0] != "0" and facts["dns"].endswith("found"), done)
    m.row("sudo and su", WORKS, m.own("by the volume's rules; for those of a group see People", "by the volume's rules"), says("sudo", "0") and says("su", "researcher"), done)
    m.checks.that(f"{m.title}: the client's port is the base's", says("from", "22"), done)
    if m.entry != "chroot":
        m.row("a user whose shell the volume lacks", WORKS, "the volume's account has its own", says("shell", "/bin/bash"), done)


def services(m):
    """By chroot, the machine's init is none of the volume's."""
    done = m.ssh(SERVICES)
    facts = facts_of(done.stdout)
    m.row("services, `systemctl start`", CANNOT, "the machine's init is the base's; systemctl says so and does nothing",
          facts.get("start", "0")[0] != "0" and "not been booted with systemd" in facts["start"] and "chroot" in facts.get("rootstart", ""), done)


DOCKER = """import os, socket
path = "/proc/1/root/run/docker.sock"
if os.path.lexists(path): os.unlink(path)
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(1); os.chmod(path, 0o660)
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    c = s.accept()[0]
    c.recv(999); c.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n{\\"Version\\": \\"of the base\\"}"); c.close(); os.unlink(path)
"""


def docker(m):
    """A stand-in that listens on the base where dockerd does, and starts once sessions run, by the volume's python."""
    m.ssh(f"sudo -n python3 -c '{DOCKER}'")
    ask = ("python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('/var/run/docker.sock')\n"
           "s.sendall(b'GET /version HTTP/1.0\\r\\n\\r\\n'); print(s.makefile().read())\"")
    refused, done = m.ssh(ask), m.ssh("sudo -n " + ask)
    who = m.own("the base's group docker", "a group with the number of the base's docker")
    m.row("the base's docker, by /var/run/docker.sock", DIFFERS,
          f"for root, and for whom {who} has; paths of `-v`, images and data are the base's and end with the instance: "
          "`-v /run/warmroot/private/volume/home/...` binds the volume's",
          "of the base" in done.stdout and "PermissionError" in refused.stderr, (done, refused))


def greeted(m):
    """How many of NEWCOMERS clients that have not logged in yet are greeted."""
    address = ("127.0.0.1", m.world.instance(m.instance)["ssh_port"])
    clients = [socket.create_connection(address, timeout=300) for _ in range(NEWCOMERS)]
    count = sum(client.makefile("rb").readline().startswith(b"SSH-2.0-") for client in clients)
    for client in clients:
        client.close()
    # As long as they are on their way out they count, and who comes next may be dropped for them.
    for _ in range(100):
        if m.ssh(r"grep -lasE 'sshd: \[(accepted|net)\]' /proc/[0-9]*/cmdline").stdout == "":
            break
        time.sleep(0.2)
    return count


def fifty(m):
    """50 sessions, ten a connection: how many were open at once, and what they answered then."""
    paths = [m.world.path(f"crowd-{number}") for number in range(5)]
    for path in paths:
        m.share(path=path)
    children = [subprocess.Popen(["ssh", "-F", m.config, "-o", f"ControlPath={path}", "shared", "echo in; read go; echo $go"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True, preexec_fn=dies_with_parent) for path in paths for _ in range(10)]
    opened = sum(child.stdout.readline() == "in\n" for child in children)
    return opened, [child.communicate("there\n", timeout=300)[0] for child in children]


def crowd(m):
    """How many newcomers may be there at once is sshd's configuration to say: sshd's default drops every third beyond ten."""
    newcomers, (opened, answers) = greeted(m), fifty(m)
    m.row("50 sessions at once", WORKS, "", opened == answers.count("there\n") == 50, (opened, answers))
    m.row(f"{NEWCOMERS} newcomers at once", WORKS, m.own("", "as many as the volume's MaxStartups has"), newcomers == NEWCOMERS or m.entry != "chroot" and newcomers >= 10,
          newcomers)


def leave_behind(m):
    """What outlives the connection: started on the shared one, looked at on the next."""
    done = m.ssh("setsid sleep 3600 >/dev/null 2>&1 </dev/null & echo $! >/tmp/left; tmux new-session -d -s kept 'sleep 3600' && echo started")
    m.unshare()
    m.share()
    found = m.ssh("kill -0 $(cat /tmp/left) && tmux has-session -t kept && echo alive; tmux kill-server; kill $(cat /tmp/left)")
    m.row("tmux and background programs outlive the connection", WORKS, "until the volume is given back", found.stdout == "alive\n", (done, found))


def people(m):
    """Those of images.sh's base-twins.img and ami.img."""
    tell = "echo uid=$(id -u); echo user=$(id -un 2>/dev/null); echo home=$HOME; echo at=$(pwd); echo shell=$SHELL; touch mine 2>/dev/null && echo writes=1"

    def found(user):
        done = m.ssh(tell, host="node", options=("-l", user))
        facts = facts_of(done.stdout)
        return {key: facts.get(key) for key in ("uid", "user", "at", "writes")}, done

    facts, done = found("researcher")
    m.row("a user of the volume alone", WORKS, "by the launch key; the volume's own keys count, too, what changes in `~/.ssh/authorized_keys` within 5 s",
          facts == {"uid": "2001", "user": "researcher", "at": "/home/researcher", "writes": "1"}, done)
    facts, done = found("mixed")
    m.row("a user of both with another uid", DIFFERS, "the base's uid, to which nothing in the volume's home belongs",
          facts.get("uid") == "1500" and facts.get("writes") is None, done)
    done = m.ssh(tell)
    m.row("a user whose shell the volume lacks", DIFFERS, "a shell that both have: the volume's for them, bash, or sh",
          facts_of(done.stdout).get("shell") == "/bin/bash", done)
    facts, done = found("basic")
    m.row("a user of the base alone", DIFFERS, "a session without a name and a home, in `/`", facts == {"uid": "1700", "user": "1700", "at": "/", "writes": None}, done)


def rescue(m):
    done = m.ssh(". /etc/os-release; echo $PRETTY_NAME", host="rescue", options=("-l", m.operator))
    m.row("the base, on `session.rescue_port`", WORKS, "with the base's own keys alone", m.base in done.stdout, done)
    done = m.ssh("id", host="rescue", options=("-l", "researcher"))
    m.checks.that("a user of the volume does not get in by the rescue port", done.returncode == 255 and "uid" not in done.stdout, done)


def node_by_name(m):
    """`warmroot ssh` finds the node; a wrapper turns EC2's address into the guest's forwarded port."""
    folder = m.world.path("bin")
    os.makedirs(folder, exist_ok=True)
    wrapper = os.path.join(folder, "ssh")
    port = m.world.instance(m.instance)["ssh_port"]
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec /usr/bin/ssh -F {m.config} -o HostName=127.0.0.1 -p {port} "$@"\n')
    os.chmod(wrapper, 0o755)
    done = m.world.warmroot("ssh", "imagenet-0", "--", "id", "-un", env={"PATH": folder + ":" + os.environ["PATH"]})
    m.checks.that("warmroot ssh logs in on the node by its name", done.stdout == "admin\n", (done.stdout, done.stderr))
    done = m.world.warmroot("ssh", "nobody-0")
    m.checks.that("a node that is not there is named", done.returncode == 2 and "nobody-0" in done.stderr, done.stderr)
    path = m.world.path("warmroot_ssh_config")
    with open(path, "w", encoding="utf-8") as file:
        file.write(m.world.warmroot("ssh-config").stdout)
    done = subprocess.run(["ssh", "-F", path, "-G", "imagenet-0-rescue"], capture_output=True, text=True, timeout=300, check=False)
    m.checks.that("ssh reads what warmroot ssh-config prints", f"port {RESCUE_PORT}" in done.stdout and "hostkeyalias imagenet-0" in done.stdout,
                  done.stdout + done.stderr)


# What the volume needs for the entry `sshd`, from the base, whose own PAM lines and drop-in stay out.
INSTALL_SSHD = """set -e; v=/run/warmroot/private/volume
cp -a /usr/sbin/sshd $v/usr/sbin/
for file in $(ldd /usr/sbin/sshd | grep -o '/[^ )]*'); do [ -e $v$file ] || cp -L $file $v$file; done
mkdir -p $v/etc/ssh; cp -L /etc/ssh/sshd_config /etc/ssh/moduli $v/etc/ssh/
grep -v pam_umask /etc/pam.d/sshd >$v/etc/pam.d/sshd
chroot $v useradd --system --no-create-home --home-dir /run/sshd --shell /usr/sbin/nologin sshd
sync; echo installed"""


def install_sshd(m):
    """By the operator on the base; the next instance lets people in by it."""
    done = m.ssh(INSTALL_SSHD, host="rescue", options=("-l", "root"))
    m.checks.that("an sshd is put into the volume", done.stdout.endswith("installed\n"), done)


def serves_itself(m):
    done = m.ssh("grep -o '\"entry\":\"sshd: the volume' /run/warmroot/status.json")
    m.checks.that(f"{m.title}: it has the port", done.returncode == 0, done)


def own_people(m):
    """The volume's sshd knows the volume's people, whatever the base calls them."""
    for user, uid, case in (("researcher", "2001", "a user of the volume alone"), ("mixed", "2500", "a user of both with another uid")):
        done = m.ssh("echo $(id -u) $(id -un) $(pwd); touch mine && echo writes", host="node", options=("-l", user))
        m.row(case, WORKS, "by the launch key and the volume's own keys, with the volume's uid and home", done.stdout == f"{uid} {user} /home/{user}\nwrites\n", done)
    done = m.ssh("id", host="node", options=("-l", "basic"))
    m.row("a user of the base alone", CANNOT, "the volume's sshd does not know them", done.returncode == 255 and "uid" not in done.stdout, done)


def run_parts(m, title, parts):
    started = time.monotonic()
    m.share()
    try:
        for part in parts:
            before = time.monotonic()
            part(m)
            m.world.say(f"  {part.__name__}: {time.monotonic() - before:.1f} s")
    finally:
        m.unshare()
    m.world.say(f"{title} took {time.monotonic() - started:.1f} s")


def table_column(m, title, parts):
    run_parts(m, title, parts)
    compare_with_readme(m.entry, m.rows, m.checks, m.world.say)


def session_matrix(world, checks, instance):
    table_column(Matrix(world, checks, instance, "session"), "the matrix",
                 (commands, terminal, surroundings, services, docker, transfers, forwards, agent, x11, crowd, leave_behind, people, rescue, node_by_name,
                  install_sshd))


def own_sshd_matrix(world, checks, instance):
    table_column(Matrix(world, checks, instance, "by the volume's sshd", "sshd"), "the matrix of the volume's own sshd",
                 (serves_itself, commands, terminal, surroundings, services, docker, transfers, forwards, agent, x11, crowd, leave_behind, own_people, rescue))


def system_surroundings(m):
    """Of a base with systemd, logind and Debian's own PAM, in whose sessions the volume's root is a chroot."""
    done = m.ssh("echo host=$(uname -n); echo name=$(cat /etc/hostname); echo zone=$(date +%Z); "
                 "test -w /dev/shm && test -c /dev/null && test -e /dev/pts/ptmx && echo dev=1; test -r /proc/self/status && ps ax | grep -q '[w]armroot-bootstrap' && echo proc=1; "
                 "test -d /sys/class/net && echo sys=1; test -d /run/lock && test ! -e /run/sshd.pid && echo run=1; test -w /tmp && echo tmp=1; "
                 "test -w \"$XDG_RUNTIME_DIR\" && echo runtime=1; echo dns=$(grep -c ^nameserver /etc/resolv.conf); "
                 "echo sudo=$(sudo -n id -u 2>/dev/null); echo su=$(sudo -n su - researcher -c 'id -un' 2>/dev/null); "
                 "systemctl start ssh >/tmp/start 2>&1; echo start=$?:$(tr '\\n' ' ' </tmp/start); "
                 "sudo -n systemctl start ssh >/tmp/start 2>&1; echo rootstart=$?:$(tr '\\n' ' ' </tmp/start)")
    facts = facts_of(done.stdout)
    says = lambda key, value: facts.get(key) == value  # noqa: E731
    m.row("time zone", WORKS, "the volume's", says("zone", "VOL"), done)
    m.row("`hostname`", DIFFERS, "", facts.get("host") not in (None, "", "imagenet-ami") and says("name", "imagenet-ami"), done)
    m.row("/dev, /dev/shm, /dev/pts, /sys, /tmp", WORKS, "", says("dev", "1") and says("sys", "1") and says("tmp", "1"), done)
    m.row("/proc, `ps`", DIFFERS, "", says("proc", "1"), done)
    m.row("/run, and a runtime directory of logind's", WORKS, "", says("run", "1") and says("runtime", "1"), done)
    m.row("DNS", WORKS, "", facts.get("dns", "0") != "0", done)
    m.row("sudo and su", WORKS, "", says("sudo", "0") and says("su", "researcher"), done)
    m.row("services, `systemctl start`", CANNOT, "", facts.get("start", "0")[0] != "0" and "not been booted with systemd" in facts["start"]
          and "chroot" in facts.get("rootstart", ""), done)


def system_matrix(world, checks, instance):
    """What a session by chroot is like on such a base: what `session_matrix` finds without systemd, but for what needs its tools."""
    run_parts(Matrix(world, checks, instance, "on systemd"), "the matrix on systemd",
              (commands, terminal, system_surroundings, docker, transfers, forwards, agent, x11, crowd, leave_behind))


def container_services(m):
    """Those of images.sh's system.img, under its own init."""
    done = m.ssh("echo virt=$(systemd-detect-virt); test -w \"$XDG_RUNTIME_DIR\" && echo runtime=1; "
                 "echo session=$(loginctl show-session $XDG_SESSION_ID -P Service -P State 2>&1 | tr '\\n' ' '); echo one=$(cat /proc/1/comm); "
                 "echo user=$(systemctl --user is-active default.target 2>&1); "
                 "sudo -n systemd-run --quiet --wait --pipe sh -c 'echo unit=$(id -u)' 2>&1; sudo -n systemctl start systemd-tmpfiles-clean.service && echo service=1; "
                 "sudo -n journalctl -q -u warmroot-sshd.service | grep -c Accepted | sed s/^/journal=/; "
                 "echo failed=$(systemctl --failed --no-legend --plain | cut -d' ' -f1); echo state=$(systemctl is-system-running)")
    facts = facts_of(done.stdout)
    says = lambda key, value: facts.get(key) == value  # noqa: E731
    m.row("services, `systemctl start`", WORKS, "the volume's own init, units, timers and journal", says("unit", "0") and says("service", "1")
          and facts.get("journal", "0") != "0" and says("one", "systemd") and says("virt", "systemd-nspawn"), done)
    m.checks.that(f"{m.title}: a logind session with a runtime directory and a user manager", says("runtime", "1")
                  and facts.get("session", "").strip() in ("sshd active", "sshd online") and says("user", "active"), done)
    m.checks.that(f"{m.title}: no unit has failed", says("failed", "") and says("state", "running"), done)


def no_docker(m):
    done = m.ssh("test -S /var/run/docker.sock || echo none")
    m.row("the base's docker, by /var/run/docker.sock", CANNOT, "the container has a /run of its own", done.stdout == "none\n", done)


def container_matrix(world, checks, instance, operator, base):
    table_column(Matrix(world, checks, instance, "by nspawn", "nspawn", operator, base), "the matrix of the container",
                 (commands, terminal, surroundings, container_services, no_docker, transfers, forwards, agent, x11, crowd, leave_behind, own_people, rescue))


def base_matrix(world, checks, instance, base, sshd):
    """What depends on the base's sshd: some of the same cases."""
    m = Matrix(world, checks, instance, base)
    done = m.ssh("/usr/sbin/sshd -V", host="rescue", options=("-l", "root"))
    checks.that(f"{base}: it is {sshd}", sshd in done.stderr, done)
    run_parts(m, f"the matrix of {base}", (commands, terminal, docker, transfers, forwards, agent, x11, leave_behind, rescue))
