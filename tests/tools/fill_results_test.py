#!/usr/bin/env python3
"""Tables of docs/results.md from a sweep's files, with numbers worked out by hand.

fill_results_test.py [UNITTEST-OPTION...]
"""

import pathlib
import tempfile
import unittest

import fill_results

COLUMNS = ("mode,pattern,seed,tta_virtual_s,accuracy,wall_s,samples_per_s,worker_cpu_per_s,worker_bytes_per_s,"
           "server_cpu_per_s,server_rx_bytes_per_s,server_tx_bytes_per_s")
RUNS = [  # mode, pattern, seed, seconds, accuracy, samples per second
    ("ssgd", "healthy", 1, 100, 0.88, 10), ("ssgd", "healthy", 2, 200, 0.88, 10),
    ("ssgd", "persistent:2", 1, 200, 0.88, 5), ("ssgd", "persistent:2", 2, "", 0.87, 5),
    ("lb-bsp", "healthy", 1, 110, 0.88, 10), ("lb-bsp", "healthy", 2, 180, 0.88, 10),
    ("lb-bsp", "persistent:2", 1, 100, 0.88, 8), ("lb-bsp", "persistent:2", 2, 150, 0.88, 8),
    ("adaptive", "healthy", 1, 106, 0.882, 10), ("adaptive", "healthy", 2, 200, 0.882, 10),
    ("adaptive", "persistent:2", 1, 92, 0.88, 9), ("adaptive", "persistent:2", 2, 165, 0.88, 9)]


def write_sweep(folder):
    rows = [f"{mode},{pattern},{seed},{seconds},{accuracy},900,{pace},{pace},{pace},2,1,1"
            for mode, pattern, seed, seconds, accuracy, pace in RUNS]
    (folder / "results.csv").write_text("\n".join([COLUMNS, *rows]) + "\n", encoding="utf-8")
    (folder / "tuning.csv").write_text(
        "mode,lr,seed,tta_virtual_s,accuracy,chosen,command\n"
        "ssgd,0.1,11,120,0.88,1,cohort simulate --data /here/d.h5 --lr 0.1\n"
        "ssgd,0.2,11,,0.5,0,cohort simulate --data '/a b/d.h5' --lr 0.2\n", encoding="utf-8")


class FillResults(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-fill-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        write_sweep(self.folder)
        self.sweep = fill_results.Sweep("no program", self.folder)

    def test_verdict_and_tables_are_the_reports(self):
        self.sweep.report = ("adaptive: faster.\n\nWith 2 seeds.\n\n**Against ssgd** (what)\n\n| a |\n\n"
                             "**Regret** (what)\n\n| b |\n\nThe first run\n")
        self.assertEqual(self.sweep.verdict(None), "adaptive: faster.\n\nWith 2 seeds.\n")
        self.assertEqual(self.sweep.table("Regret"), "| b |\n")

    def test_demands_accuracies_rates_effort(self):
        self.assertIn("| persistent:2 | +60 % | +60 % | +60 % | +0 % | +0 % | +0 % |",
                      self.sweep.demands("lb-bsp / ssgd"))
        self.assertIn("| adaptive | 88.2 % (+0.2) | 88.0 % (+0.5) |", self.sweep.accuracies("ssgd"))
        self.assertIn("| ssgd | **0.1**: 120; 0.2: never |", self.sweep.rates(None))
        self.assertIn("12 runs of the table took 3.0 core hours; 2 runs", self.sweep.effort(None))

    def test_copies_name_the_data_set_alone(self):
        fill_results.copy_csv(self.sweep, self.folder / "docs")
        text = (self.folder / "docs/tuning.csv").read_text(encoding="utf-8")
        self.assertEqual(text.count("--data fashion-mnist.h5 --lr"), 2)

    def test_marks_of_other_sweeps_stay(self):
        page = "<!-- rates this -->\nold\n<!-- end -->\n<!-- rates other -->\nold\n<!-- end -->\n"
        text = fill_results.filled(page, {"this": self.sweep})
        self.assertIn("<!-- rates this -->\n| mode |", text)
        self.assertIn("<!-- rates other -->\nold\n", text)
        self.assertEqual(fill_results.filled(text, {"this": self.sweep}), text)


if __name__ == "__main__":
    unittest.main()
