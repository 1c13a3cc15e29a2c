#!/usr/bin/env python3
"""Records of virtual runs; predictors trained and scored on them.

predictor_test.py COHORT [-- UNITTEST-OPTION...]
"""

import json
import pathlib
import tempfile
import unittest

import cli_support
from cli_support import run


def record(folder, *options, code=0):
    """A virtual run whose every iteration is recorded."""
    return run("simulate", "--no-train", "--record-load", "--time-as", "resnet50", "--servers", 8,
               "--pattern", "onoff:3", "--samples", 150000, "--out", folder, *options, code=code)


def scores(*arguments):
    """(predictor, horizon) -> the line of JSON about it."""
    text = run("predictor", "score", *arguments, "--json").stdout
    lines = [json.loads(line) for line in text.splitlines()]
    return {(line["predictor"], line["horizon"]): line for line in lines}


class Predictors(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="cohort-predictor-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        for seed in (1, 2):
            record(cls.folder / f"run{seed}", "--pattern-seed", seed)

    def test_the_oracle_is_best_and_episodes_beats_the_last_value(self):
        found = scores(self.folder / "run1", self.folder / "run2",
                       "--predictors", "last,episodes,oracle")
        self.assertEqual(len(found), 9)
        self.assertEqual({line["run"] for line in found.values()}, {"onoff:3"})
        f1 = {name: found[name, 30]["f1"] for name in ("last", "episodes", "oracle")}
        self.assertLess(f1["last"], f1["episodes"])
        self.assertLess(f1["episodes"], f1["oracle"])
        self.assertGreater(f1["oracle"], 0.95)
        one = found["last", 1]
        self.assertAlmostEqual(
            one["f1"],
            2 * one["hits"] / (2 * one["hits"] + one["false_alarms"] + one["misses"]))

    def test_a_model_is_trained_and_used(self):
        model = self.folder / "model.h5"
        text = run("predictor", "train", self.folder / "run1", "--out", model, "--epochs", 2,
                   "--stride", 64).stdout
        self.assertIn("model.h5", text)
        self.assertTrue(model.read_bytes().startswith(b"cohort-store"))
        found = scores(self.folder / "run2", "--model", model, "--predictors", "lstm")
        self.assertGreater(found["lstm", 1]["predictions"], 2000)
        used = run("simulate", "--no-train", "--time-as", "resnet50", "--samples", 20000,
                   "--mode", "star-h", "--predictor", "lstm", "--predictor-file", model, "--json")
        self.assertTrue(json.loads(used.stdout.splitlines()[-1])["predictor_scores"])

    def test_tables_are_for_people(self):
        text = run("predictor", "score", self.folder / "run1", "--predictors", "last").stdout
        self.assertRegex(text.splitlines()[1], r"^onoff:3 +last +1 +\d+ +\d+\.\d% ")
        self.assertEqual(len(text.splitlines()), 4)

    def test_what_is_missing_is_named(self):
        plain = self.folder / "plain"
        run("simulate", "--no-train", "--samples", 2000, "--out", plain)
        self.assertIn("--record-load", run("predictor", "score", plain, code=3).stderr)


if __name__ == "__main__":
    cli_support.main()
