"""The contract cases of contract.hpp against moto_server, an EC2 emulation of other people, where one is installed.
Exit status 77 where it is not, also under WARMROOT_MUST_RUN=1: moto is in no package of Debian 12, so that tests/deps.sh
cannot install it. Usage: moto_contract_test.py BUILD_DIRECTORY"""
import os
import re
import shutil
import subprocess
import sys
import threading
import time

STARTS_WITHIN_S = 60


def started():
    """moto on a port of its own choice, and its endpoint."""
    moto = subprocess.Popen(["moto_server", "-H", "127.0.0.1", "-p", "0"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    said = []
    deadline = threading.Timer(STARTS_WITHIN_S, moto.kill)
    deadline.start()
    for line in moto.stdout:
        said.append(line)
        found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", line)
        if found:
            deadline.cancel()
            threading.Thread(target=lambda: [None for _ in moto.stdout], daemon=True).start()
            return moto, found.group(1)
    sys.exit(f"moto_server did not start: {''.join(said)}")


def main():
    if not shutil.which("moto_server"):
        print("SKIPPED: moto_server is not installed; our region was compared with nobody else's")
        return 77
    moto, endpoint = started()
    differences, failed = set(), []
    try:
        for name in ("contract_test", "launch_contract_test"):
            begun = time.monotonic()
            run = subprocess.run([os.path.join(sys.argv[1], name), "--gtest_filter=*/moto"], text=True,
                                 env={**os.environ, "WARMROOT_MOTO": endpoint}, stdout=subprocess.PIPE)
            differences |= set(re.findall(r"^moto differs: (.*)$", run.stdout, re.M))
            passed = re.search(r"\[  PASSED  \] (\d+) test", run.stdout)
            count = int(passed.group(1)) if passed else 0
            print(f"{name}: {count} cases passed in {time.monotonic() - begun:.1f} s")
            if run.returncode or not count:
                failed.append(name)
                print(run.stdout)
    finally:
        moto.terminate()
        moto.wait(10)
    print("Where moto differs, by the cases (AWS's documentation is with our region):")
    for line in sorted(differences):
        print(f"  - {line}")
    return 1 if failed else 0


sys.exit(main())
