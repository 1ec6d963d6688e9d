"""How long sessions wait for the bootstrap on the way in and on the way out, natively, beside a shell script that does the same: the cases
of hotpath_cases.py on the machine of hotpath_host.py. Asserts nothing. Called by `bench/run.sh hotpath`; see bench/README.md."""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys

import hotpath_cases
from hotpath_host import Host

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def interval(values):
    """Of the median, 95 %, by order statistics (least and largest where there are too few); with the confidence that it has."""
    ordered, count = sorted(values), len(values)

    def within(skip):  # that the median lies between the ends without `skip` values on either side
        term, outside = 0.5 ** count, 0.0
        for k in range(skip + 1):
            outside += term
            term = term * (count - k) / (k + 1)
        return 1 - 2 * outside

    skip = 0
    while skip + 1 < (count - 1) // 2 and within(skip + 1) >= 0.95:
        skip += 1
    return ordered[skip], ordered[count - 1 - skip]


def summary(values):
    low, high = interval(values)
    return {"median": statistics.median(values), "interval": [low, high], "values": values}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    return {"processors": os.cpu_count(), "model": model, "kernel": os.uname().release, "load_at_start": os.getloadavg()[0]}


def revision():
    done = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def show(name, figures):
    print(name)
    for what, figure in figures.items():
        low, high = figure["interval"]
        print(f"  {what:58} {figure['median']:10.2f}  [{low:.2f}, {high:.2f}]  n={len(figure['values'])}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/run.sh hotpath", description=__doc__)
    parser.add_argument("--json", help="write every value to this file")
    parser.add_argument("--seed", type=int, default=1, help="of the order of contenders")
    parser.add_argument("--repetitions", type=int, default=20, help="of each contender in the first case; the others take a part of it")
    parser.add_argument("--cases", default=",".join(hotpath_cases.CASES), help="some of: " + ", ".join(hotpath_cases.CASES))
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    report = {"bench": "hotpath", "rev": revision(), "machine": machine(), "seed": asked.seed, "repetitions": asked.repetitions, "cases": {}}
    build = os.path.join(TOP, "build")
    host = Host(os.path.join(build, "bench", "hotpath"), os.path.join(build, "images"), os.path.join(build, "release", "warmroot-bootstrap"))
    try:
        for name in asked.cases.split(","):
            values = hotpath_cases.CASES[name](host, draw, asked.repetitions)
            figures = {what: summary(each) for what, each in values.items()}
            show(name, figures)
            report["cases"][name] = figures
    finally:
        host.close()
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
