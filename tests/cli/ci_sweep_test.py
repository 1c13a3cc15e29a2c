#!/usr/bin/env python3
"""experiments/ci.toml from beginning to end: every run ends, and who must win by far wins.

ci_sweep_test.py COHORT [-- UNITTEST-OPTION...]

Only differences that are larger than chance are asserted: those of pace, where one mode waits for a worker
that is two or three times slower and the other does not, and the samples that stale gradients with whole
steps need on top.
"""

import csv
import pathlib
import statistics
import sys
import tempfile
import unittest

from cli_support import call

PROGRAM = None
ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
NEVER = float("inf")
SKIPPED = 77  # ctest's SKIP_RETURN_CODE

# (pattern, winner, loser): the loser takes at least this many times as long.
GAP = 1.2
WINNERS = [
    ("healthy", "ssgd", "asgd"),
    ("persistent:2", "backup:1", "ssgd"),
    ("persistent:2", "lb-bsp", "ssgd"),
    ("delay:3", "backup:1", "ssgd"),
    ("delay:3", "backup:1", "lb-bsp"),
    ("delay:3", "quorum:6", "ssgd"),
    ("persistent:2", "adaptive", "ssgd"),
    ("delay:3", "adaptive", "ssgd"),
]


class CiSweep(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-ci-sweep-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        data = folder / "fashion-mnist.h5"
        call([PROGRAM, "import", "--format", "idx", "--input", IMAGES, "--output", data])
        call([PROGRAM, "sweep", ROOT / "experiments/ci.toml", "--out", folder / "sweep",
              "--set", f"data={data}"])
        with open(folder / "sweep" / "results.csv", encoding="utf-8", newline="") as file:
            cls.rows = list(csv.DictReader(file))

    def median(self, mode, pattern):
        times = [float(row["tta_virtual_s"] or NEVER) for row in self.rows
                 if row["mode"] == mode and row["pattern"] == pattern]
        self.assertEqual(len(times), 2, f"{mode} under {pattern}")
        return statistics.median(times)

    def test_all_runs_are_there(self):
        self.assertEqual(len(self.rows), 6 * 3 * 2)
        for row in self.rows:
            self.assertGreater(float(row["virtual_s"]), 0)

    def test_who_waits_for_a_slow_worker_loses(self):
        for pattern, winner, loser in WINNERS:
            with self.subTest(pattern=pattern, winner=winner, loser=loser):
                self.assertLess(GAP * self.median(winner, pattern), self.median(loser, pattern))

    def test_who_chooses_loses_nothing_where_nobody_is_slow(self):
        self.assertLess(self.median("adaptive", "healthy"), GAP * self.median("ssgd", "healthy"))

    def test_nobody_is_slower_for_lack_of_a_slow_worker(self):
        for pattern in ("persistent:2", "delay:3"):
            self.assertLess(GAP * self.median("ssgd", "healthy"), self.median("ssgd", pattern))


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    if not IMAGES.exists():
        print(f"no {IMAGES}: jobs/install_deps.sh installs it")
        sys.exit(SKIPPED)
    unittest.main()
