"""One run of warm_guest_bench inside its guest: waits for the volume's two disks, starts the contender on one, mounts the
root from the other, runs the session in it, and waits for the contender. A word a line on stdout when each has happened,
and after "there" it waits for a line: the host's clock is the one that counts.
Usage: warm_guest_run.py LIMIT_S OFFSET_BYTES FILE_SYSTEM [COMMAND...]   (session: /bench/session)"""
import ctypes
import glob
import os
import signal
import subprocess
import sys
import time

ROOT, DISK, DISK_LINK = "/bench/root", "voldisk", "/bench/disk"
ROOT_DISK = "volroot"
CONTENDER_LOG = "/bench/contender.log"
DISKS_WITHIN_S, SESSION_WITHIN_S, END_WITHIN_S = 30, 180, 5
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


def tell(word):
    print(word, flush=True)


def mount(source, target, kind, flags=0, options=""):
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()):
        raise SystemExit(f"mounting {source}: {os.strerror(ctypes.get_errno())}")


def disk_of(serial):
    for file in glob.glob("/sys/block/*/device/serial"):
        with open(file, encoding="ascii") as text:
            if text.read().strip() == serial:
                return "/dev/" + file.split("/")[3]
    return None


def partition_at(disk, offset):
    for file in glob.glob(f"/sys/block/{os.path.basename(disk)}/*/start"):
        with open(file, encoding="ascii") as text:
            if int(text.read()) * 512 == offset:
                return "/dev/" + file.split("/")[4]
    return None


def wait_for_disks(offset):
    deadline = time.monotonic() + DISKS_WITHIN_S
    while time.monotonic() < deadline:
        root, disk = disk_of(ROOT_DISK), disk_of(DISK)
        partition = root and partition_at(root, offset)
        if disk and partition and os.path.exists(disk) and os.path.exists(partition):
            return partition, disk
        time.sleep(0.05)
    raise SystemExit("the volume's disks have not come")


def block_usr1():
    """The warmer waits for it, and would miss one that comes before it does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])


def end(contender):
    contender.terminate()
    try:
        contender.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        contender.kill()
        contender.wait()


def run_session():
    for tree in ("dev", "proc"):
        mount("/" + tree, f"{ROOT}/{tree}", "", 4096)  # MS_BIND
    with open("/bench/session", encoding="utf-8") as file, open("/bench/session.log", "wb") as log:
        done = subprocess.run(["/bin/bash", "-l", "-c", file.read()], stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=SESSION_WITHIN_S,
                              preexec_fn=lambda: (os.chroot(ROOT), os.chdir("/")), check=False)
    if done.returncode:
        with open("/bench/session.log", encoding="utf-8", errors="replace") as log:
            raise SystemExit(f"the session failed with status {done.returncode}: {log.read()[-500:]}")


def run(limit, partition, file_system, command):
    contender = None
    try:
        if command:
            with open(CONTENDER_LOG, "wb") as log:
                contender = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=block_usr1)
        began = time.monotonic()
        mount(partition, ROOT, file_system, 0, "noinit_itable" if file_system == "ext4" else "")
        tell("mounted")
        if contender and "--warm" in command:
            contender.send_signal(signal.SIGUSR1)
        run_session()
        tell("session")
        if contender:
            try:
                tell(f"ended {contender.wait(max(0, limit - (time.monotonic() - began)))}")
            except subprocess.TimeoutExpired:
                tell("limit")
        else:
            tell("limit")
    finally:
        if contender:
            end(contender)
        for tree in ("/proc", "/dev", ""):
            libc.umount2((ROOT + tree).encode(), MNT_DETACH)


def main():
    limit, offset, file_system = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.makedirs(ROOT, exist_ok=True)
    partition, disk = wait_for_disks(offset)
    if os.path.lexists(DISK_LINK):
        os.unlink(DISK_LINK)
    os.symlink(disk, DISK_LINK)
    tell("there")
    sys.stdin.readline()
    with open(CONTENDER_LOG, "wb"):  # of this run, also where it has no contender
        pass
    run(limit, partition, file_system, sys.argv[4:])
    with open(CONTENDER_LOG, encoding="utf-8", errors="replace") as log:
        for line in log:
            tell("said " + line.rstrip("\n"))
    tell("over")


if __name__ == "__main__":
    main()
