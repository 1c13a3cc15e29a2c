#!/usr/bin/env python3
"""Patterns, traces and their pictures; the trace that a real job leaves, and its repetition.

trace_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import csv
import json
import os
import signal
import subprocess
import xml.dom.minidom

import cli_support
from cli_support import ProgramTest, call, events, left_s, run, wait_until

SHADES = "·░▒▓█"
SLEEP_MS = 100  # of a mini-batch: long beside the moments for which a busy machine keeps a rank waiting


def rows(path):
    """The rows of a trace, numbers as numbers."""
    with open(path, encoding="utf-8", newline="") as file:
        return [{key: value if key == "target" else float(value) for key, value in row.items()}
                for row in csv.DictReader(file)]


class Traces(ProgramTest):

    def file(self, name):
        self.out().mkdir(exist_ok=True)
        return self.out() / name

    def lines(self, *arguments, **options):
        return run("trace", "show", *arguments, **options).stdout.splitlines()

    def test_a_pattern_becomes_a_trace_and_the_trace_shows_the_pattern(self):
        shape = ("--pattern", "transient:3", "--seed", 5, "--length-s", 900)
        trace = self.file("t.csv")
        self.assertIn(f"{trace}: ", run("trace", "make", *shape, "--out", trace).stdout)
        found = rows(trace)
        self.assertEqual({row["device_share"] for row in found}, {1, 1 / 3})
        self.assertEqual([row["time_s"] for row in found],
                         sorted(row["time_s"] for row in found))
        shown = self.lines(*shape)
        self.assertEqual(len(shown), 10)
        self.assertEqual(shown, self.lines(trace, "--workers", 8, "--length-s", 900))
        self.assertEqual(shown, self.lines("--trace", trace, "--workers", 8, "--length-s", 900))
        again = self.file("again.csv")
        run("trace", "make", *shape, "--out", again)
        self.assertEqual(again.read_bytes(), trace.read_bytes())
        run("trace", "make", *shape[:3], 6, *shape[4:], "--out", again, "--overwrite")
        self.assertNotEqual(again.read_bytes(), trace.read_bytes())

    def test_the_picture_has_the_width_that_was_asked_for(self):
        for columns in (40, 120):
            shown = self.lines("--pattern", "half:4", "--workers", 4, "--columns", columns)
            for line in shown[:4]:
                self.assertEqual(len(line), columns)
                self.assertLessEqual(set(line[9:]), set(" " + SHADES))
            self.assertEqual(sum("▓" in line for line in shown[:4]), 2)

    def test_sizes_of_a_trace_come_from_it(self):
        trace = self.file("t.csv")
        trace.write_text("time_s,target,device_share\n0,worker:2,0.1\n100,worker:2,1\n")
        shown = self.lines(trace)
        self.assertEqual([line.split(" ", 2)[:2] for line in shown[:3]],
                         [["worker", str(i)] for i in range(3)])
        self.assertIn("105 s", shown[3])
        self.assertIn("worker:2", run("trace", "show", trace, "--workers", 2, code=2).stderr)

    def test_the_svg_is_well_formed_and_self_contained(self):
        picture = self.file("storm.svg")
        self.lines("--pattern", "storm", "--svg", picture)
        document = xml.dom.minidom.parse(str(picture))
        self.assertEqual(document.documentElement.tagName, "svg")
        self.assertEqual(document.documentElement.getAttribute("role"), "img")
        self.assertEqual(document.getElementsByTagName("script"), [])
        self.assertNotIn("href", picture.read_text())

    def test_jobs_of_a_pattern_are_listed_but_are_no_rows(self):
        self.assertIn(" from node", "\n".join(self.lines("--pattern", "colocated:5")))
        trace = self.file("t.csv")
        done = run("trace", "make", "--pattern", "colocated", "--out", trace, code=2)
        self.assertIn("cohort simulate --pattern", done.stderr)
        self.assertFalse(trace.exists())
        self.assertIn("not in the file",
                      run("trace", "make", "--pattern", "storm", "--out", trace).stderr)
        self.assertTrue(rows(trace))


class Recorded(ProgramTest):

    def command(self, ranks, *arguments, trace=None):
        words = [*cli_support.MPIRUN, "-n", ranks, cli_support.PROGRAM, "train", "--data", self.data, "--out",
                 self.out(), "--model", "softmax", "--batch", 10, "--threads", 1,
                 "--checkpoint-every-s", 0, "--compute", f"sleep:{SLEEP_MS}ms", "--overwrite", "--record-trace",
                 trace or self.folder / "t.csv", *arguments]
        return [str(word) for word in words]

    def train(self, ranks, *arguments, code=0, trace=None):
        done = call(self.command(ranks, *arguments, trace=trace), code=code)
        return done.stdout + done.stderr

    def lines_logged(self):
        """Whether the job has trained for a while."""
        return ((self.out() / "metrics.jsonl").exists()
                and len(events(self.out(), "train")) >= 2)

    def check_slow_worker(self, worker, share):
        """Only this worker is slow, by this share, except for noise at single moments."""
        found = rows(self.folder / "t.csv")
        end = max(row["time_s"] for row in found) + 1
        spent = {}
        for target in {row["target"] for row in found}:
            own = [row for row in found if row["target"] == target]
            for row, following in zip(own, own[1:] + [{"time_s": end}]):
                slow = row["device_share"] < 0.8
                if slow:
                    spent.setdefault(target, []).append((following["time_s"] - row["time_s"],
                                                         row["device_share"]))
        self.assertIn(worker, spent, found)
        longest = max(spent[worker])
        self.assertAlmostEqual(longest[1], share, delta=0.12 * share)
        return longest

    def test_a_slow_worker_is_in_the_trace_and_the_simulation_takes_it(self):
        text = self.train(4, "--arch", "servers", "--mode", "asgd", "--samples", 2400, "--inject",
                          "rank=2,cpu=0.4")
        self.assertIn("trace of the workers' own times", text)
        self.check_slow_worker("worker:1", 0.4)
        others = self.folder / "others.csv"
        lines = (self.folder / "t.csv").read_text().splitlines(keepends=True)
        others.write_text("".join(line for line in lines if "worker:1," not in line))
        slow, even = (json.loads(run("simulate", "--no-train", "--trace", trace, "--workers", 3, "--mode", "asgd",
                                     "--model", "smallcnn", "--samples", 20000, "--json").stdout.splitlines()[-1])
                      ["by_worker"] for trace in (self.folder / "t.csv", others))
        self.assertLess(slow[1]["samples"], 0.8 * even[1]["samples"])
        run("simulate", "--no-train", "--trace", self.folder / "t.csv", "--workers", 1,
            "--samples", 20000, code=2)

    def test_a_ring_is_recorded_as_well(self):
        self.train(3, "--mode", "ring", "--samples", 900, "--inject", "rank=2,cpu=0.5,from=0.4s")
        self.check_slow_worker("worker:2", 0.5)

    def test_a_signal_does_not_lose_the_trace(self):
        with subprocess.Popen(self.command(3, "--arch", "servers", "--mode", "asgd", "--samples",
                                           1000000, "--log-every-s", 1, "--inject",
                                           "rank=1,cpu=0.5"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "OMP_WAIT_POLICY": "passive"}) as job:
            wait_until(self.lines_logged, "lines in the log", lambda: job.poll() is None)
            job.send_signal(signal.SIGTERM)
            text, _ = job.communicate(timeout=left_s())
        self.assertIn("signal", text)
        self.check_slow_worker("worker:0", 0.5)

    def test_a_trace_that_cannot_be_written_ends_the_run_at_once(self):
        text = self.train(2, "--samples", 1000, code=3, trace=self.folder / "no" / "t.csv")
        self.assertIn("t.csv", text)


if __name__ == "__main__":
    cli_support.main()
