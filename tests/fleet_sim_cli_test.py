"""fleet_sim as people run it: what it prints, its JSON, and how it ends.

usage: fleet_sim_cli_test.py BUILD-DIRECTORY
"""
import json
import signal
import subprocess
import sys
import time
import unittest

PROGRAM = sys.argv.pop(1) + "/fleet_sim"


def fleet_sim(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120)


class FleetSim(unittest.TestCase):
    def test_the_report_says_what_was_run_and_covered(self):
        done = fleet_sim("--first-seed", "5", "--seeds", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["first_seed"], report["seeds"], report["runs"]), (5, 3, 3))
        self.assertEqual((report["violations"], report["interrupted"]), (0, False))
        self.assertTrue(report["rev"])
        self.assertGreater(report["coverage"]["action"]["AttachVolume accepted"], 0)
        self.assertNotIn("violation", report)

    def test_faults_are_chosen_by_name_and_counted(self):
        done = fleet_sim("--seeds", "4", "--faults", "throttled,killed", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        coverage = json.loads(done.stdout)["coverage"]
        self.assertEqual(set(coverage["fault"]) - {"throttled", "killed"}, set())
        hit = set(coverage["hit"])
        self.assertTrue(hit and hit <= {"throttled", "throttled_after", "too_many_requests"}, hit)

    def test_a_trace_is_printed_of_every_seed(self):
        done = fleet_sim("--first-seed", "7", "--seeds", "2", "--trace")
        self.assertEqual(done.returncode, 0, done.stderr)
        ends = [line for line in done.stdout.splitlines() if line.startswith("seed=")]
        self.assertEqual([end.split()[0] for end in ends], ["seed=7", "seed=8"])

    def test_a_planted_violation_ends_with_1_and_names_the_command_that_repeats_it(self):
        done = fleet_sim("--seeds", "1000", "--planted", "1", "--json")
        if "no value for --planted" in done.stderr:
            self.skipTest("built without planted bugs")
        self.assertEqual(done.returncode, 1, done.stderr)
        found = json.loads(done.stdout)["violation"]
        self.assertIn(f"violation seed={found['seed']} fault=", found["line"])
        self.assertIn(f"; again: fleet_sim --first-seed {found['seed']} --seeds 1", found["line"])
        self.assertIn(found["line"], done.stderr)
        again = found["line"].split("again: fleet_sim ")[1].split()
        self.assertIn(found["text"], fleet_sim(*again).stderr)

    def test_one_that_is_interrupted_is_no_success(self):
        run = subprocess.Popen([PROGRAM, "--seeds", "1000000"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 3, err)
        self.assertRegex(err, r"interrupted after \d+ of 1000000 seeds")
        self.assertIn("violations=0", out)

    def test_bad_usage_says_what_there_is(self):
        for arguments, word in ((["--nodes", "1"], "2 or more"), (["--faults", "no_such"], "killed"),
                                (["--seeds"], "usage:"), (["--bad", "1"], "usage:")):
            done = fleet_sim(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(word, done.stderr)


unittest.main(verbosity=2)
