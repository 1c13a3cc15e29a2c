#!/usr/bin/env python3
"""What runs' plans achieved, and the regressor of star-ml trained on it.

chooser_test.py COHORT [-- UNITTEST-OPTION...]
"""

import json
import pathlib
import tempfile
import unittest

import cli_support
from cli_support import run


def simulate(*options, code=0):
    return run("simulate", "--no-train", "--time-as", "resnet50", "--servers", 8, "--predictor", "ewma",
               "--samples", 150000, *options, code=code)


def decisions(*options):
    """Of a run of star-ml under a storm."""
    done = simulate("--mode", "star-ml", "--pattern", "storm", "--json", *options)
    return json.loads(done.stdout.splitlines()[-1])["decisions"]


class Choosers(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="cohort-chooser-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        for mode, pattern in (("asgd", "storm:3"), ("ssgd", "half:3"), ("dynamic", "clustered:3")):
            simulate("--mode", mode, "--pattern", pattern, "--pattern-seed", 101, "--record-rates",
                     "--out", cls.folder / mode)
        simulate("--mode", "star-ml", "--pattern", "onoff:2", "--out", cls.folder / "star-ml")
        cls.weights = cls.folder / "weights.toml"
        cls.trained = run("chooser", "train", *(cls.folder / name for name in
                          ("asgd", "ssgd", "dynamic", "star-ml")), "--out", cls.weights).stdout

    def test_errors_are_told_by_pattern(self):
        for pattern in ("storm", "half", "clustered", "onoff"):
            self.assertRegex(self.trained, rf"(?m)^{pattern} +\d+ +\d+\.\d\d ")
        self.assertIn("trained_on", self.weights.read_text())
        scored = run("chooser", "score", self.folder / "asgd", "--model", self.weights).stdout
        self.assertRegex(scored, r"(?m)^storm +\d+ ")

    def test_star_ml_begins_with_a_file(self):
        anew = decisions("--chooser-file", "none")
        self.assertEqual(anew, decisions("--chooser-file", "none"))
        self.assertNotEqual(anew, decisions("--chooser-file", self.weights))
        self.assertNotEqual(decisions("--chooser-file", self.weights), decisions())

    def test_what_is_missing_or_wrong_is_named(self):
        plain = self.folder / "plain"
        simulate("--mode", "ssgd", "--out", plain)
        self.assertIn("--record-rates", run("chooser", "score", plain, code=2).stderr)
        bad = self.folder / "bad.toml"
        bad.write_text("[weights]\nmoon = 1\n")
        said = simulate("--mode", "star-ml", "--chooser-file", bad, code=3).stderr
        self.assertIn("moon", said)
        self.assertIn("bad.toml", said)
        self.assertIn("nowhere.toml",
                      simulate("--mode", "star-ml", "--chooser-file", "nowhere.toml", code=3).stderr)


if __name__ == "__main__":
    cli_support.main()
