#!/usr/bin/env python3
"""Regression: import of numbers to predict, training on many ranks, scores, and what is refused.

runs_test.py COHORT REFERENCE MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import call, events, make_data, run, run_ranks, tensors  # noqa: E402

REFERENCE = None
JOB = ["--model", "softmax", "--batch", 20, "--threads", 1, "--lr", 0.05]


def linear_data(count, seed):
    """Five features; two targets of different scales that are linear in them, with noise."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(count, 5)) * [1, 10, 0.1, 2, 5] + [0, 3, 1, -2, 50]
    weights = np.array([[300, -2], [20, 0.1], [-900, 4], [0, 1], [15, 0]])
    return x, x @ weights + [1000, -3] + draw.normal(size=(count, 2)) * [150, 1]


def r2_of(x, y, x_test, y_test):
    """Of the least-squares solution, per target: squared errors in units of the train variance."""
    ones = lambda rows: np.hstack([rows, np.ones((len(rows), 1))])
    solution = np.linalg.lstsq(ones(x), y, rcond=None)[0]
    errors = np.mean((ones(x_test) @ solution - y_test) ** 2, axis=0)
    return 1 - np.mean(errors / y.var(axis=0))


def write_csv(path, x, y, header="a,price,b,c,d,e,weight"):
    rows = [[row[0], target[0], *row[1:], target[1]] for row, target in zip(x, y)]
    path.write_text("\n".join([header, *(",".join(f"{value:.9g}" for value in row) for row in rows)]) + "\n")


class Regression(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="cohort-regression-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.train_set, cls.test_set = linear_data(1000, 1), linear_data(400, 2)
        write_csv(cls.folder / "train.csv", *cls.train_set)
        write_csv(cls.folder / "test.csv", *cls.test_set)
        cls.data = cls.folder / "numbers.h5"
        cls.shown = cls.import_csv("price,weight", cls.data).stdout

    @classmethod
    def import_csv(cls, columns, output, train="train.csv", **options):
        return run("import", "--input", cls.folder / train, "--input", cls.folder / "test.csv",
                   "--target-columns", columns, "--output", output, **options)

    def out(self, name=""):
        return self.folder / (self.id().rsplit(".", 1)[-1] + name)

    def train(self, ranks, *options, name="", code=0):
        done = run_ranks(ranks, "train", "--data", self.data, "--out", self.out(name), *JOB, *options,
                         code=code)
        return events(self.out(name))[-1] if code == 0 else None, done.stderr

    def test_h5py_reads_what_was_imported(self):
        x, y = self.train_set
        with h5py.File(self.data) as file:
            self.assertEqual(file.attrs["version"], 2)
            self.assertNotIn("classes", file.attrs)
            np.testing.assert_allclose(file["train/targets"], y, rtol=1e-6)
            np.testing.assert_allclose(file["train/samples"], x, rtol=1e-6)
            self.assertEqual(file["test/targets"].dtype, np.float32)
            np.testing.assert_allclose(file.attrs["target_mean"], y.mean(axis=0), rtol=1e-6)
            np.testing.assert_allclose(file.attrs["target_std"], y.std(axis=0), rtol=1e-6)
        self.assertIn("2 targets", self.shown)
        info = run("info", "--data", self.data, "--verify", "--model", "mlp").stdout
        self.assertIn("matches the file's", info)
        self.assertIn("model mlp: input [5], 2 targets", info)

    def test_many_ranks_come_near_the_least_squares_solution(self):
        best = r2_of(*self.train_set, *self.test_set)
        self.assertGreater(best, 0.5)
        for mode in "asgd", "ssgd":
            with self.subTest(mode=mode):
                summary, log = self.train(4, "--arch", "servers", "--mode", mode, "--epochs", 10,
                                          "--lr-schedule", "cosine:0", name=mode)
                self.assertAlmostEqual(summary["test_r2"], best, delta=0.01)
                self.assertAlmostEqual(summary["test_r2"], 1 - summary["test_loss"], places=12)
                self.assertNotIn("test_accuracy", summary)
                self.assertEqual(summary["samples_leased"],
                                 summary["samples_applied"] + summary["samples_returned"])
                self.assertRegex(log, r"test loss 0\.\d{4}, R2 0\.\d{4}")
                self.assertNotIn("accuracy", log.replace("--target-accuracy", "").replace("target-accuracy", ""))
                found = events(self.out(mode), "train")[-1]
                self.assertAlmostEqual(found["r2"], 1 - found["loss"], places=12)
                model = self.out(mode) / "model.h5"
                report = json.loads(run("eval", "--data", self.data, "--model-file", model, "--json").stdout)
                self.assertAlmostEqual(report["r2"], summary["test_r2"], places=5)
                self.assertNotIn("accuracy", report)
                onnx = self.out(mode) / "model.onnx"
                run("export", "--model-file", model, "--to", "onnx", "--out", onnx)
                same = json.loads(run("eval", "--data", self.data, "--model-file", onnx, "--json").stdout)
                self.assertAlmostEqual(same["r2"], report["r2"], places=6)
                with h5py.File(model) as file:
                    self.assertEqual(file.attrs["targets"], 2)
                    self.assertNotIn("classes", file.attrs)

    def test_scores_are_those_of_the_targets_in_their_own_units(self):
        self.train(1, "--epochs", 3, "--deterministic")
        (x, y), (x_test, y_test) = self.train_set, self.test_set
        with h5py.File(self.out() / "model.h5") as file:
            weights, bias = (file[f"parameters/linear1.{name}"][()] for name in ("weight", "bias"))
            mean, std = file["target_mean"][()], file["target_std"][()]
        outputs = ((x_test - x.mean(axis=0)) / x.std(axis=0)) @ weights.T + bias
        errors = np.mean((outputs * std + mean - y_test) ** 2, axis=0) / y.var(axis=0)
        self.assertAlmostEqual(events(self.out())[-1]["test_loss"], np.mean(errors), places=5)

    def test_ranks_equal_one_process_bit_for_bit(self):
        job = ["--model", "mlp", "--batch", 26, "--lr", 0.02, "--momentum", 0.9, "--seed", 3, "--samples", 1300]
        reference = self.out("reference")
        call([REFERENCE, reference, 4, "--data", self.data, *job])
        for arch, ranks in (["--arch", "ring"], 4), (["--arch", "servers"], 5):
            out = self.out(arch[1])
            run_ranks(ranks, "train", "--data", self.data, "--out", out, "--threads", 1, "--deterministic",
                      *job, *arch)
            self.assertEqual(tensors(out), tensors(reference))

    def test_a_run_goes_on_as_if_it_had_not_stopped(self):
        job = ["--deterministic", "--checkpoint-every-samples", 400]
        self.train(1, "--samples", 1200, *job, name="whole")
        self.train(1, "--samples", 800, *job, name="part")
        self.train(1, "--samples", 1200, *job, "--resume", name="part")
        self.assertEqual(tensors(self.out("whole")), tensors(self.out("part")))
        other = self.folder / "resumed.h5"
        self.import_csv("weight,price", other)
        shutil.copytree(self.out("part"), self.out("other"))
        done = run("train", "--data", other, "--out", self.out("other"), *JOB, *job, "--samples", 2000,
                   "--resume", code=3)
        self.assertIn("dataset", done.stderr)

    def test_modes_and_local_steps_learn_targets(self):
        for ranks, *mode in (4, "--arch", "servers", "--mode", "adaptive"), (3, "--arch", "ring", "--mode", "ring:1"), \
                (4, "--arch", "servers", "--mode", "localsgd:2"):
            with self.subTest(mode=mode):
                summary, _ = self.train(ranks, *mode, "--epochs", 5, name=mode[-1].replace(":", ""))
                self.assertGreater(summary["test_r2"], 0.5)
                self.assertEqual(summary["samples_outstanding"], 0)

    def test_a_virtual_cluster_learns_targets_too(self):
        best = r2_of(*self.train_set, *self.test_set)
        job = ["simulate", "--data", self.data, "--model", "softmax", "--time-as", "resnet20", "--batch", 20,
               "--lr", 0.05, "--workers", 4, "--samples", 8000, "--seed", 1]
        done = run(*job, "--json", "--out", self.out())
        summary = json.loads(done.stdout)
        self.assertAlmostEqual(summary["test_r2"], best, delta=0.03)
        self.assertNotIn("test_accuracy", summary)
        self.assertRegex(done.stderr, r"test after \d+ samples, [\d.]+ s: loss 0\.\d{4}, R2 0\.\d{4}")
        done = run(*job, "--json", "--target-loss", 0.5)
        self.assertEqual(json.loads(done.stdout)["stop_reason"], "target")
        done = run(*job, "--target-accuracy", 0.5, code=2)
        self.assertIn("[--target-accuracy]", done.stderr)
        page = self.out() / "page.html"
        run("report", self.out(), "--out", page)
        self.assertIn("R2 over virtual time", page.read_text().replace("\n", " "))

    def test_targets_of_a_run(self):
        summary, _ = self.train(1, "--epochs", 20, "--target-loss", 0.5, name="loss")
        self.assertEqual(summary["stop_reason"], "target")
        _, log = self.train(3, "--target-accuracy", 0.5, name="accuracy", code=2)
        self.assertIn("[--target-accuracy]", log)
        self.assertIn("--target-loss", log)
        self.assertFalse(self.out("accuracy").exists())

    def test_a_model_and_data_of_another_kind_are_refused(self):
        classes = make_data(self.folder)
        run("train", "--data", classes, "--out", self.out("classes"), "--model", "softmax", "--epochs", 1)
        self.train(1, "--samples", 100, name="numbers")
        done = run("eval", "--data", classes, "--model-file", self.out("numbers") / "model.h5", code=3)
        self.assertIn("expected [5], 2 targets, got [1,12,12], 4 classes", done.stderr)
        done = run("eval", "--data", self.data, "--model-file", self.out("classes") / "model.h5", code=3)
        self.assertIn("expected [1,12,12], 4 classes, got [5], 2 targets", done.stderr)
        one = self.folder / "one.h5"
        self.import_csv("price", one)
        done = run("eval", "--data", one, "--model-file", self.out("numbers") / "model.h5", code=3)
        self.assertIn("the samples do not fit the model", done.stderr)

    def test_numpy_arrays(self):
        for name, (x, y) in ("train", self.train_set), ("test", self.test_set):
            np.savez(self.folder / f"{name}.npz", x=x.astype(np.float32), y=y)
        done = run("import", "--input", self.folder / "train.npz", "--input", self.folder / "test.npz",
                   "--output", self.folder / "npz.h5")
        self.assertIn("are numbers to predict (regression), 2 for each sample", done.stderr)
        with h5py.File(self.folder / "npz.h5") as file, h5py.File(self.data) as other:
            np.testing.assert_allclose(file["train/targets"], other["train/targets"], rtol=1e-6)

    def test_wrong_input_is_named(self):
        x, y = (part[:8].copy() for part in self.train_set)
        output = self.folder / "wrong.h5"

        def refused(columns, code=3):
            return self.import_csv(columns, output, train="wrong.csv", code=code).stderr

        path = self.folder / "wrong.csv"
        write_csv(path, x, y)
        self.assertIn("there is no target column 'prize'", refused("prize"))
        self.assertIn("too few columns", refused("a,price,b,c,d,e,weight"))
        self.assertIn("two targets at once", refused("price,1"))
        y[3, 1] = np.nan
        write_csv(path, x, y)
        self.assertRegex(refused("price,weight"), r"wrong\.csv:5\] unusable value in column 6; .*'nan'")
        path.write_text(path.read_text().replace("nan", "cold"))
        self.assertRegex(refused("price,weight"), r"wrong\.csv:5\] unusable value in column 6; .*'cold'")
        y[:, 1] = 7
        write_csv(path, x, y)
        self.assertIn("target 1 is the same in all train samples", refused("price,weight"))
        self.assertFalse(output.exists())
        done = run("import", "--input", path, "--label-column", "price", "--test-fraction", 0.5, "--output",
                   output, code=3)
        self.assertIn("--target-columns", done.stderr)


if __name__ == "__main__":
    REFERENCE = pathlib.Path(sys.argv.pop(2)).resolve()
    cli_support.main()
