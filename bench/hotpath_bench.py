"""How long sessions wait for the bootstrap on the way in and on the way out, natively, beside a shell script that does the same: the cases
of hotpath_cases.py on the machine of hotpath_host.py. Asserts nothing. Called by `bench/run.sh hotpath`; see bench/README.md."""
import argparse
import os
import random
import sys

import hotpath_cases
from figures import TOP, add_case, report_of, write_report
from hotpath_host import Host


def main():
    parser = argparse.ArgumentParser(prog="bench/run.sh hotpath", description=__doc__)
    parser.add_argument("--json", help="write every value to this file")
    parser.add_argument("--seed", type=int, default=1, help="of the order of contenders")
    parser.add_argument("--repetitions", type=int, default=20, help="of each contender in the first case; the others take a part of it")
    parser.add_argument("--cases", default=",".join(hotpath_cases.CASES), help="some of: " + ", ".join(hotpath_cases.CASES))
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    report = report_of("hotpath", asked)
    build = os.path.join(TOP, "build")
    host = Host(os.path.join(build, "bench", "hotpath"), os.path.join(build, "images"), os.path.join(build, "release", "warmroot-bootstrap"))
    try:
        for name in asked.cases.split(","):
            add_case(report, name, hotpath_cases.CASES[name](host, draw, asked.repetitions))
    finally:
        host.close()
    write_report(report, asked.json)


if __name__ == "__main__":
    sys.exit(main())
