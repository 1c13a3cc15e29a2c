#!/usr/bin/env python3
"""Timelines of real and virtual runs: what the trace event format asks for, and sums against the
run's own records.

timeline_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import collections
import csv
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
import h5py  # noqa: E402
from cli_support import ProgramTest, run, run_ranks  # noqa: E402

ROUNDING_US = 0.0021  # of times in nanoseconds


class Timeline:
    """A timeline as its readers take it, checked on the way."""

    def __init__(self, test, path):
        self.names = {}  # lane -> name
        self.spans = collections.defaultdict(list)  # lane -> (begin, end, name), microseconds
        self.instants = []
        arrows = collections.defaultdict(list)
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)["traceEvents"]
        for event in trace:
            lane = (event["pid"], event["tid"])
            if event["ph"] == "M":
                if event["name"] == "thread_name":
                    self.names[lane] = event["args"]["name"]
                continue
            test.assertIn(event["ph"], "Xisf")
            test.assertGreaterEqual(event["ts"], 0)
            if event["ph"] == "X":
                test.assertGreaterEqual(event["dur"], 0)
                self.spans[lane].append((event["ts"], event["ts"] + event["dur"], event["name"]))
            elif event["ph"] == "i":
                self.instants.append(event)
            else:
                arrows[event["id"]].append(event)
        for lane, spans in self.spans.items():
            test.assertIn(lane, self.names)
            spans.sort()
            for (_, end, _), (begin, _, name) in zip(spans, spans[1:]):
                test.assertGreaterEqual(begin, end - ROUNDING_US, (self.names[lane], name))
        for ends in arrows.values():
            test.assertEqual([end["ph"] for end in ends], ["s", "f"])
            test.assertLessEqual(ends[0]["ts"], ends[1]["ts"] + ROUNDING_US)
            for end in ends:
                test.assertTrue(any(begin - ROUNDING_US <= end["ts"] <= until + ROUNDING_US
                                    for begin, until, _ in self.spans[end["pid"], end["tid"]]), end)
        self.arrows = collections.Counter(ends[0]["name"] for ends in arrows.values())

    def sums(self):
        """(lane, span) -> seconds."""
        found = collections.Counter()
        for lane, spans in self.spans.items():
            for begin, end, name in spans:
                found[self.names[lane], name] += (end - begin) * 1e-6
        return found


class Timelines(ProgramTest):

    def real(self, *arguments):
        """A run of two workers, in a ring three; returns its timeline and the number of its records."""
        out = self.out()
        path, load = out.with_suffix(".json"), out.with_suffix(".csv")
        run_ranks(3, "train", "--data", self.data, "--out", out, "--model", "smallcnn", "--batch", 20,
                  "--threads", 1, "--samples", 1600, "--timeline", path, "--record-load", load, *arguments)
        sums = collections.Counter()
        counts = collections.Counter()
        with open(load, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                counts[row["worker"]] += 1
                for name in ("input", "compute", "pull"):
                    if "ring" not in arguments or counts[row["worker"]] > 1:
                        sums[f"worker {row['worker']}", name] += float(row[f"{name}_s"])
        timeline = Timeline(self, path)
        found = timeline.sums()
        for key, seconds in sums.items():
            self.assertAlmostEqual(found[key], seconds, delta=1e-6 * sum(counts.values()), msg=key)
        return timeline, sum(counts.values())

    def test_servers(self):
        timeline, iterations = self.real("--arch", "servers", "--mode-schedule", "0:ssgd,800:asgd")
        self.assertIn("switch", {event["name"] for event in timeline.instants})
        self.assertIn("evaluation", {event["name"] for event in timeline.instants})
        self.assertGreater(timeline.arrows["push"], 0.9 * iterations)
        self.assertGreater(timeline.arrows["release"], 0.8 * iterations)

    def test_ring(self):
        timeline, iterations = self.real("--arch", "ring")
        self.assertGreater(timeline.arrows["push"], 0.9 * (iterations - 3))
        self.assertGreater(timeline.arrows["release"], 0.9 * (iterations - 6))

    def test_virtual_runs_have_the_lanes_of_their_results(self):
        for arch, mode in (("servers", "asgd"), ("servers", "ssgd"), ("ring", "ssgd")):
            with self.subTest(arch=arch, mode=mode):
                out = self.out() / f"{arch}-{mode}"
                path = out.with_suffix(".json")
                job = ["simulate", "--no-train", "--arch", arch, "--mode", mode, "--workers", 4, "--model",
                       "resnet20", "--pattern", "persistent:2", "--samples", 20000]
                self.out().mkdir(exist_ok=True)
                plain = json.loads(run(*job, "--json").stdout)
                drawn = json.loads(run(*job, "--json", "--out", out, "--timeline", path).stdout)
                self.assertEqual(plain["digest"], drawn["digest"])
                timeline = Timeline(self, path)
                lanes = collections.Counter()
                with h5py.File(out / "result.h5") as file:
                    names = ("delay", "input", "compute", "push", "wait", "pull", "lost")
                    columns = [file["lanes"][name][:] for name in ("worker", "kind", "begin_s", "end_s")]
                    for worker, kind, begin, end in zip(*columns):
                        lane = f"worker {worker} pushes" if names[kind] == "push" else f"worker {worker}"
                        lanes[lane, names[kind]] += end - begin
                found = timeline.sums()
                for key, seconds in lanes.items():
                    self.assertAlmostEqual(found[key], seconds, delta=1e-6 * 1000, msg=key)
                self.assertGreater(timeline.arrows["push"], 0)
                self.assertGreater(timeline.arrows["release"], 0)
                run(*job, "--timeline", path, code=2)

    def test_a_timeline_of_a_run_that_fails_is_kept(self):
        path = self.folder / "failed.json"
        self.train("--timeline", path, "--lr", 1e30, "--samples", 10000, code=6)
        self.assertIn("dropped", {event["name"] for event in Timeline(self, path).instants})


if __name__ == "__main__":
    cli_support.main()
