"""What the benches in Python do with their values: the median with its interval, the machine, and a report in JSON."""
import json
import os
import statistics
import subprocess

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


def report_of(bench, asked):
    """The head of a report; its cases follow. `asked` has the options: seed and repetitions are named."""
    return {"bench": bench, "rev": revision(), "machine": machine(), "seed": asked.seed, "repetitions": asked.repetitions, "cases": {}}


def add_case(report, name, values):
    """Shows the values of a case, by what they are, and keeps them."""
    report["cases"][name] = {what: summary(each) for what, each in values.items()}
    show(name, report["cases"][name])


def write_report(report, path):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
