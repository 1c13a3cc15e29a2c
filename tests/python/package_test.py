#!/usr/bin/env python3
"""`import cohort`: the program's numbers, texts and results from Python.   package_test.py COHORT

The package is found by PYTHONPATH.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy

import cohort

PROGRAM = None
TIME_ONLY = {"no_train": True, "time_as": "resnet50", "samples": 20000, "mode": "static:6",
             "pattern": "persistent:2"}


class Package(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cohort-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_simulate_gives_the_programs_numbers(self):
        words = []
        for name, value in TIME_ONLY.items():
            words += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
        done = subprocess.run([PROGRAM, "simulate", "--json", *words], capture_output=True, text=True,
                              check=True)
        expected = json.loads(done.stdout)
        result = cohort.simulate(**TIME_ONLY)
        same = result.summary.keys() & expected.keys() - {"wall_s", "command"}
        self.assertGreater(len(same), 12)
        for name in same:
            self.assertEqual(result.summary[name], expected[name], name)
        self.assertEqual(result["workers"]["samples"].tolist(),
                         [worker["samples"] for worker in expected["by_worker"]])

    def test_what_is_written_can_be_loaded(self):
        result = cohort.simulate(out=self.folder / "run", **TIME_ONLY)
        for path in (self.folder / "run", self.folder / "run" / "result.h5"):
            loaded = cohort.load_result(path)
            self.assertEqual(loaded.summary, result.summary)
            self.assertEqual(loaded.options, result.options)
            for name, table in result.tables.items():
                lengths = {len(column) for column in table.values()}
                self.assertEqual(len(lengths), 1, name)
                for column, values in table.items():
                    numpy.testing.assert_array_equal(loaded[name][column], values)

    def test_metrics_of_a_run_are_tables(self):
        lines = [{"event": "start", "model": "lenet"},
                 {"event": "train", "loss": 2.5, "mode": "ssgd"},
                 {"event": "train", "loss": None, "mode": "asgd"},
                 {"event": "summary", "updates": 2}]
        (self.folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        run = cohort.load_result(self.folder)
        self.assertEqual(run.summary, {"updates": 2})
        numpy.testing.assert_array_equal(run["train"]["loss"], [2.5, numpy.nan])
        self.assertEqual(run["train"]["mode"].tolist(), ["ssgd", "asgd"])
        (self.folder / "metrics.jsonl").write_text('{"event": "train"}\n{torn\n')
        with self.assertRaisesRegex(OSError, r"metrics.jsonl:2\] is not JSON"):
            cohort.load_result(self.folder)

    def test_sweep(self):
        (self.folder / "two.toml").write_text(
            'title = "two"\nseeds = [1]\n[job]\nno-train = true\ntime-as = "resnet50"\nsamples = 4000\n'
            '[[mode]]\nname = "ssgd"\nmode = "ssgd"\n[[mode]]\nname = "asgd"\nmode = "asgd"\n'
            '[[pattern]]\nname = "healthy"\npattern = "healthy"\n')
        out = self.folder / "sweep"
        result = cohort.sweep(self.folder / "two.toml", out, jobs=2, workers=4)
        self.assertEqual(result["runs"]["mode"].tolist(), ["ssgd", "asgd"])
        self.assertTrue((result["runs"]["samples"] == 4000).all())
        self.assertEqual(cohort.load_result(out)["runs"]["digest"].tolist(),
                         result["runs"]["digest"].tolist())
        with self.assertRaisesRegex(ValueError, "workerz"):
            cohort.sweep(self.folder / "two.toml", out, workerz=4)

    def test_errors_have_the_programs_texts(self):
        for options, text in (({"workers": -1}, "--workers: expected a whole number"),
                              ({"fruit": 3}, "--fruit"),
                              ({**TIME_ONLY, "mode": "nix"}, "--mode"),
                              ({"momentum": 0.5, "optimizer": "adamw"}, "adamw has no momentum")):
            with self.assertRaisesRegex(ValueError, text):
                cohort.simulate(**options)
        with self.assertRaisesRegex(OSError, "holds no result"):
            cohort.load_result(self.folder)
        with self.assertRaisesRegex(OSError, "nowhere"):
            cohort.load_result(self.folder / "nowhere")

    def test_ctrl_c_ends_a_simulation(self):
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            cohort.simulate(no_train=True, time_as="resnet50", samples=2_000_000_000, mode="ssgd")
        timer.join()

    def test_the_program_is_in_the_package(self):
        done = subprocess.run([sys.executable, "-m", "cohort", "simulate", "--workers", "0"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--workers", done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
