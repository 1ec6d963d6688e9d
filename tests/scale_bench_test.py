"""scale_bench on a handful of nodes: the JSON has its fields, and every node is served exactly once.
The scripts have the bound of their own waits. No timing is asserted. Usage: scale_bench_test.py BUILD_DIRECTORY"""

import json
import subprocess
import sys

FIELDS = """case nodes client served bound_s done_s excess_s ratio attach_bucket_use mutating_calls_per_node
describing_calls_per_node attach_calls_per_node cpu_s cpu_ms_per_node peak_mib""".split()


def report_of(*options):
    run = subprocess.run([sys.argv[1] + "/scale_bench", *options, "--json"], stdout=subprocess.PIPE, check=True, timeout=140)
    return json.loads(run.stdout)


def scripts_are_not_held_against_the_waits_of_the_manager():
    """Up to 50 nodes nobody waits for a token: the only excess is the 0.1 s in which the scripts start."""
    for options in ([], ["--no-manager"]):
        cases = report_of("--nodes", "1,2,16,50", "--case", "running", "--seed", "1", *options)["cases"]
        scripts = [case for case in cases if case["client"] == "polling scripts"]
        assert [case["nodes"] for case in scripts] == [1, 2, 16, 50], scripts
        assert options or len(cases) == 3 * len(scripts), cases
        for case in scripts:
            assert 0 <= case["excess_s"] <= 0.1 and 0 <= case["blind_excess_s"] <= 0.1, case


def main():
    scripts_are_not_held_against_the_waits_of_the_manager()
    report = report_of("--nodes", "3,60", "--seed", "5")
    for field in ("rev", "machine", "seed", "cases"):
        assert field in report, field
    seen = set()
    for case in report["cases"]:
        for field in FIELDS:
            assert field in case, (field, case)
        if case["client"] != "warmroot":
            assert case["served"] == case["nodes"] and case["excess_s"] >= 0, case
            continue
        seen.add((case["case"], case["nodes"]))
        assert case["finished"] and case["failed_ticks"] == 0, case
        assert case["served_twice"] == 0, case
        if case["case"] == "storm":
            assert 0 <= case["released_share"] <= 1, case
            continue
        assert case["served"] == case["nodes"], case
        # The bound holds for what was drawn, whoever asks.
        assert case["excess_s"] > -0.01, case
        if case["case"] == "running":
            assert case["calls"]["AttachVolume"] == case["nodes"], case
            assert set(case["calls"]) - {"AttachVolume"} <= {
                name for name in case["calls"] if name.startswith(("Describe", "Get"))}, case
        if case["case"] == "launch":
            assert case["calls"].get("AttachVolume", 0) <= case["nodes"], case
    wanted = {(kind, nodes) for kind in ("running", "launch", "faults") for nodes in (3, 60)}
    assert wanted <= seen, wanted - seen


main()
