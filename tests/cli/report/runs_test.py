#!/usr/bin/env python3
"""`cohort report` on runs of cohort train, from outside.   runs_test.py COHORT"""

import csv
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import ProgramTest, events, run  # noqa: E402


class Runs(ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = [cls.folder / name for name in ("plain", "slow")]
        for folder, more in zip(cls.runs, ((), ("--inject", "rank=0,delay=10ms"))):
            run("train", "--data", cls.data, "--out", folder, "--model", "smallcnn", "--batch", 20, "--threads", 1,
                "--epochs", 2, "--log-every-s", 0.01, *more)

    def test_a_run_becomes_a_page_and_its_numbers(self):
        run("report", self.runs[0])
        page = (self.runs[0] / "report.html").read_text(encoding="utf-8")
        start, summary = events(self.runs[0], "start")[0], events(self.runs[0], "summary")[0]
        self.assertIn(f"<h1 class=\"sentence\">{start['mode']} trained for ", page)
        self.assertIn(f"revision {start['revision']}", page)
        self.assertIn(start["hosts"][0], page)
        self.assertTrue(start["command"].startswith("cohort train --data "), start["command"])
        self.assertIn("--model smallcnn", start["command"])
        self.assertIn("href=\"report.csv\"", page)
        with open(self.runs[0] / "report.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        tests = [float(row["quality"]) for row in rows if row["kind"] == "test"]
        self.assertAlmostEqual(tests[-1], summary["test_accuracy"], places=8)
        for row in rows:
            if row["computing"]:
                shares = sum(float(row[part]) for part in ("computing", "input", "transferring", "waiting"))
                self.assertAlmostEqual(shares, 1, places=6)
        run("report", self.runs[0])  # its own page and table are replaced

    def test_the_command_of_a_page_repeats_the_run(self):
        start = events(self.runs[1], "start")[0]
        again = self.out()
        words = start["command"].split()
        words[words.index(str(self.runs[1]))] = again
        run(*words[1:], "--dry-run")
        self.assertIn("--inject rank=0,delay=10ms", start["command"])

    def test_runs_side_by_side(self):
        page = self.folder / "both.html"
        run("report", *self.runs, "--out", page)
        text = page.read_text(encoding="utf-8")
        for folder in self.runs:
            self.assertIn(f"<th scope=\"row\">{folder.name}</th>", text)
        self.assertTrue((self.folder / "both.csv").exists())
        table = run("report", *self.runs, "--markdown").stdout
        self.assertIn("| plain |", table)

    def test_a_resumed_and_a_killed_run_are_runs(self):
        again = self.out()
        shutil.copytree(self.runs[0], again)
        run("train", "--data", self.data, "--out", again, "--model", "smallcnn", "--batch", 20, "--threads", 1,
            "--epochs", 3, "--log-every-s", 0.01, "--resume")
        run("report", again, "--out", again / "whole.html")
        self.assertIn(">resumed</text>", (again / "whole.html").read_text(encoding="utf-8"))
        metrics = again / "metrics.jsonl"
        metrics.write_bytes(metrics.read_bytes()[:-20])
        self.assertIn("so far", run("report", again, "--markdown").stdout)

    def test_what_cannot_be_reported_says_why(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("metrics.jsonl of cohort train", run("report", empty, code=3).stderr)
        other = self.folder / "other.jsonl"
        other.write_text(json.dumps({"a": 1}) + "\n", encoding="utf-8")
        self.assertIn("other.jsonl, line 1", run("report", other, code=3).stderr)
        other.write_text("", encoding="utf-8")
        self.assertIn("no run starts in this file", run("report", other, code=3).stderr)
        result = self.folder / "virtual"
        run("simulate", "--data", self.data, "--model", "smallcnn", "--out", result, "--workers", 2, "--samples", 100)
        self.assertIn("is no run of cohort train, but others are",
                      run("report", self.runs[0], result, code=2).stderr)
        self.assertIn("the same run is given twice", run("report", self.runs[0], self.runs[0], code=2).stderr)
        mine = self.folder / "mine.csv"
        mine.write_text("1,2\n", encoding="utf-8")
        self.assertIn("mine.csv", run("report", self.runs[0], "--out", self.folder / "mine.html", code=2).stderr)
        self.assertFalse((self.folder / "mine.html").exists(), "neither of the two is written")


if __name__ == "__main__":
    cli_support.main()
