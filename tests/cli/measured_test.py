#!/usr/bin/env python3
"""What real ranks measure for predictors and choosers: loads, rates, gradients; what is learned meanwhile.

measured_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import json
import re

import h5py

import cli_support
from cli_support import ProgramTest, events, run, run_ranks


class Measured(ProgramTest):

    def train(self, ranks, *arguments, folder=None):
        """A run to its end. Returns its folder."""
        out = folder or self.out()
        run_ranks(ranks, "train", "--data", self.data, "--out", out, "--threads", 1, "--checkpoint-every-s", 0,
                  *arguments)
        return out

    def test_a_recorded_run_trains_a_predictor(self):
        load = self.folder / "load.csv"
        self.train(3, "--arch", "servers", "--mode", "asgd", "--model", "softmax", "--batch", 10, "--compute",
                   "sleep:5ms", "--inject", "rank=2,delay=10ms", "--samples", 4000, "--record-load", load)
        lines = load.read_text().splitlines()
        self.assertTrue(lines[0].startswith("batch,worker,iteration,samples,"))
        rows = [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
        self.assertEqual({row["worker"] for row in rows}, {"0", "1"})
        slow = [float(row["compute_s"]) for row in rows if row["worker"] == "1"]
        self.assertGreater(sorted(slow)[len(slow) // 2], 0.014)
        model = self.folder / "model.h5"
        said = run("predictor", "train", load, "--out", model, "--epochs", 1).stdout
        # A worker in whose times nothing happens beside an earlier such one is left out: on a quiet machine, one
        first = [row for row in rows if row["worker"] == "0"]
        self.assertIn(int(re.search(r"trained on (\d+) records", said)[1]), (len(rows), len(first)))
        scores = [json.loads(line) for line in
                  run("predictor", "score", load, "--model", model, "--predictors", "last,lstm",
                      "--json").stdout.splitlines()]
        self.assertEqual({score["predictor"] for score in scores}, {"last", "lstm"})
        self.assertGreater(min(score["predictions"] for score in scores), 100)
        self.assertIn("--profile", run("predictor", "score", load, "--predictors", "oracle", code=3).stderr)
        load.write_text("\n".join([lines[0], lines[1], lines[2].replace(",", ",x", 1)]))
        self.assertIn("line 3, worker", run("predictor", "score", load, code=3).stderr)
        load.write_text("time_s,target\n")
        self.assertIn("line 1", run("predictor", "score", load, code=3).stderr)

    def rows_replayed(self, load):
        """By worker: rows of RECORDING whose times its iterations took, none where this machine took its time."""
        lines = load.read_text().splitlines()
        found = [[], []]
        for line in lines[1:]:
            row = dict(zip(lines[0].split(","), line.split(",")))
            worker = int(row["worker"])
            row, column = divmod(int(float(row["compute_s"]) / 0.06), 2)
            found[worker].append(row if column == worker else None)
        return found

    def test_a_recording_is_replayed_by_worker_and_iteration(self):
        recording = self.folder / "recording.csv"
        recording.write_text("iteration,worker0_ms,worker1_ms\n0,0,60\n1,120,180\n2,240,300\n")
        job = ["--mode", "ssgd", "--model", "softmax", "--batch", 10, "--arch", "servers"]
        replay = ["--compute", f"sleep:5ms+recorded:{recording}", "--checkpoint-every-samples", 400]
        first, second = self.folder / "first.csv", self.folder / "second.csv"
        out = self.train(3, *job, *replay, "--samples", 400, "--record-load", first)
        self.train(3, *job, *replay, "--samples", 800, "--record-load", second, "--resume", folder=out)
        run("simulate", "--data", self.data, "--no-train", "--record-load", "--out", self.folder / "virtual",
            "--time-as", "smallcnn", "--workers", 2, "--servers", 1, "--pattern", f"recorded:{recording}", *job,
            "--samples", 800)
        with h5py.File(self.folder / "virtual/result.h5") as result:
            input_s = result["records/input_s"][:][result["records/worker"][:] == 0]
        wanted = [int(seconds / 0.12) for seconds in input_s]
        self.assertEqual(set(wanted), {0, 1, 2})
        for one, other in zip(self.rows_replayed(first), self.rows_replayed(second)):
            rows = one + other  # what goes on begins where the first part ended
            self.assertEqual(len(rows), 40)
            seen = [(row, want) for row, want in zip(rows, wanted) if row is not None]
            self.assertGreater(len(seen), 30)
            self.assertGreater(sum(row == want for row, want in seen), 0.9 * len(seen), rows)

    def test_what_plans_achieve_is_recorded_and_scored(self):
        """On a busy machine times change so often that no window is whole: another try then."""
        for attempt in range(3):
            out = self.train(3, "--arch", "servers", "--mode", "ssgd", "--model", "softmax", "--batch", 10,
                             "--compute", "sleep:250ms", "--samples", 1200, "--record-rates",
                             folder=self.folder / f"rates{attempt}")
            rates = events(out, "rate")
            if rates:
                break
        self.assertGreater(len(rates), 0)
        self.assertEqual({rate["plan"] for rate in rates}, {"ssgd"})
        weights = self.folder / "weights.toml"
        self.assertIn(f"{len(rates)} windows of 1 runs", run("chooser", "train", out, "--out", weights).stdout)
        self.assertIn("timed_pace", weights.read_text())

    def test_rings_measure_gradients_as_virtual_ones_do(self):
        job = ("--arch", "ring", "--mode", "ring", "--model", "smallcnn", "--batch", 20, "--lr", 0.02,
               "--momentum", 0, "--samples", 12000)
        for option in ("--record-rates", "--lr-rule=adascale"):
            out = self.train(3, *job, option, folder=self.folder / f"real{option}")
            real = events(out, "train")[-1]
            virtual = self.folder / f"virtual{option}"
            run("simulate", "--data", self.data, "--workers", 3, "--time-as", "resnet50", "--out", virtual,
                "--threads", 1, *job, "--measure-gradients" if option == "--record-rates" else option)
            with h5py.File(virtual / "result.h5") as result:
                found = dict(result.attrs)
            self.assertAlmostEqual(real["noise_scale"] / found["noise_scale"], 1, delta=0.02)

    def test_the_refiner_takes_steps(self):
        """It has the lowest priority: on a busy machine a longer run is tried."""
        for samples in (10000, 40000, 160000):
            out = self.train(3, "--arch", "servers", "--mode", "star-h", "--predictor", "lstm", "--model", "softmax",
                             "--batch", 10, "--compute", "sleep:10ms", "--samples", samples,
                             folder=self.folder / f"refined{samples}")
            summary = events(out, "summary")[0]
            if summary["refiner_steps"] > 0:
                break
        self.assertGreater(summary["refiner_steps"], 0)
        self.assertGreater(summary["refiner_cpu_s"], 0)
        self.assertEqual({score["predictor"] for score in summary["predictor_scores"]}, {"lstm"})
        plain = self.train(3, "--arch", "servers", "--mode", "star-h", "--predictor", "ewma", "--model", "softmax",
                           "--batch", 10, "--compute", "sleep:10ms", "--samples", 1000, folder=self.folder / "plain")
        self.assertEqual(events(plain, "summary")[0]["refiner_steps"], 0)


if __name__ == "__main__":
    cli_support.main()
