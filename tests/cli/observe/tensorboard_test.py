#!/usr/bin/env python3
"""Event files as TensorBoard's own reader takes them, against metrics.jsonl.

tensorboard_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]

Needs tensorboard in build/peers (tests/tools/install_peers.sh); without it the exit code is 77.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import cli_support  # noqa: E402
from cli_support import ProgramTest, events, left_s, run, run_ranks  # noqa: E402

PEERS = ROOT / "build" / "peers" / "bin" / "python3"
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
reader = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
reader.Reload()
tags = reader.Tags()
json.dump({
    "scalars": {tag: [[e.step, e.value] for e in reader.Scalars(tag)] for tag in tags["scalars"]},
    "texts": {tag: [[e.step, e.tensor_proto.string_val[0].decode()] for e in reader.Tensors(tag)]
              for tag in tags["tensors"]},
    "plugins": {tag: reader.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]},
}, sys.stdout)
"""


def read(folder):
    """What TensorBoard finds in the event files of a run."""
    done = subprocess.run([PEERS, "-c", READER, pathlib.Path(folder) / "tensorboard"],
                          capture_output=True, text=True, timeout=left_s(), check=True)
    return json.loads(done.stdout)


class EventFiles(ProgramTest):

    def check_same(self, seen, tag, records, field, seam):
        """A curve is a column of metrics.jsonl over samples applied, but for the checkpoint's own point."""
        expected = [(record["samples_applied"], record[field]) for record in records
                    if record["samples_applied"] != seam]
        found = [point for point in seen["scalars"][tag] if point[0] != seam]
        self.assertEqual([step for step, _ in found], [step for step, _ in expected], tag)
        for (_, value), (_, number) in zip(found, expected):
            self.assertAlmostEqual(value, number, delta=1e-6 * max(1, abs(number)), msg=tag)

    def check_curves(self, out, seam=None):
        seen = read(out)
        for tag, kind, field in (
                ("train/loss", "train", "loss"), ("train/accuracy", "train", "accuracy"),
                ("train/learning_rate", "train", "lr"), ("train/samples_per_s", "train", "samples_per_s"),
                ("train/gradient_norm", "train", "gradient_norm"),
                ("test/loss", "evaluation", "test_loss"),
                ("test/accuracy", "evaluation", "test_accuracy")):
            self.check_same(seen, tag, events(out, kind), field, seam)
        return seen

    def test_curves_are_those_of_the_metrics(self):
        out = self.out()
        run_ranks(3, "train", "--data", self.data, "--out", out, "--model", "smallcnn", "--batch", 20,
                  "--threads", 1, "--arch", "servers", "--tensorboard", "--epochs", 2,
                  "--log-every-s", 0.05, "--mode-schedule", "0:ssgd,400:asgd")
        seen = self.check_curves(out)
        train = events(out, "train")
        self.assertEqual([step for step, _ in seen["scalars"]["lag/worker_1"]],
                         [record["samples_applied"] for record in train])
        for step, speed in seen["scalars"]["speed/worker_0"]:
            own_s = next(r["own_s"][0] for r in train if r["samples_applied"] == step)
            self.assertAlmostEqual(speed, 20 / own_s, delta=1e-3 * speed)
        modes = [text for _, text in seen["texts"]["mode"]]
        self.assertIn("ssgd", modes[0])
        self.assertTrue(any("asgd" in text for text in modes[1:]), modes)
        self.assertEqual(seen["plugins"]["mode"], "text")

    def test_a_resumed_run_goes_on_where_it_was_cut(self):
        job = ["--tensorboard", "--log-every-s", 0.001, "--checkpoint-every-samples", 400,
               "--eval-every-samples", 200]
        self.train(*job, "--samples", 600)
        out = self.out()
        newest = max((out / "checkpoints").glob("step-*.h5"),
                     key=lambda path: int(path.name.split("-")[1].split(".")[0]))
        for file in (out / "checkpoints").glob(newest.name.removesuffix(".h5") + ".*"):
            file.unlink()  # the run goes on from the checkpoint before
        self.train(*job, "--samples", 900, "--resume")
        self.assertEqual(len(list((out / "tensorboard").iterdir())), 2)
        resumed = events(out, "resume")[0]["samples_applied"] if events(out, "resume") else None
        seen = self.check_curves(out, seam=400)
        self.assertLess(400, seen["scalars"]["train/loss"][-1][0], resumed)
        self.train(*job, "--samples", 200, "--overwrite")
        self.check_curves(out)
        self.assertEqual(len(list((out / "tensorboard").iterdir())), 1)

    def test_virtual_runs_have_their_evaluations(self):
        out = self.out()
        job = ["simulate", "--data", self.data, "--out", out, "--workers", 2, "--samples", 600,
               "--batch", 20, "--eval-every-samples", 200, "--tensorboard", "--threads", 1]
        result = json.loads(run(*job, "--json").stdout)
        seen = read(out)
        self.assertEqual(len(seen["scalars"]["test/accuracy"]), 3)
        self.assertAlmostEqual(seen["scalars"]["test/accuracy"][-1][1], result["test_accuracy"], places=6)
        run(*job, "--overwrite")
        self.assertEqual(read(out), seen)
        self.assertIn("--out DIR", run("simulate", "--no-train", "--samples", 100, "--tensorboard", code=2).stderr)


if __name__ == "__main__":
    if not PEERS.exists() or subprocess.run([PEERS, "-c", "import tensorboard"], check=False,
                                            capture_output=True).returncode != 0:
        print("skipped: tensorboard is not in build/peers (tests/tools/install_peers.sh)")
        sys.exit(77)
    cli_support.main()
