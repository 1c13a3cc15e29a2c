#!/usr/bin/env python3
"""Data that training must not use: samples that are not finite, other data, ids as labels, pipes.

data_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import os
import shlex

import h5py
import numpy as np

import cli_support
from cli_support import ProgramTest, call, events, images, run

JOB = ["--model", "smallcnn", "--batch", 20, "--threads", 1]


class DataTest(ProgramTest):

    def h5py_file(self, name, change=None, seed=3, count=600):
        """What an h5py user writes: float32, without checksums; `change` gets (x, x_test)."""
        path = self.folder / f"{self.id().rsplit('.', 1)[-1]}-{name}.h5"
        (x, y), (x_test, y_test) = images(count, seed), images(200, seed + 1)
        x, x_test = x.astype(np.float32), x_test.astype(np.float32)
        with h5py.File(path, "w") as f:
            f.attrs.update(format="cohort-dataset", version=1, classes=4, mean=64.0, std=50.0)
            if change:
                change(x, x_test)
            for group, samples, labels in ("train", x, y), ("test", x_test, y_test):
                f.create_dataset(f"{group}/samples", data=samples, chunks=(64, 1, 12, 12))
                f[f"{group}/labels"] = labels
        return path

    def train_on(self, data, *arguments, **options):
        return run("train", "--data", data, "--out", self.out(), *JOB, *arguments, **options)

    def ranks(self, *programs):
        """A job of ranks with different arguments, one list of them for each; its log. mpirun gets a single program,
        which looks at its rank: Open MPI 5.0.7's ends by a signal when a job has several."""
        words = ([cli_support.PROGRAM, "train", *JOB, "--epochs", 1, *arguments] for arguments in programs)
        cases = "".join(f"{rank}) exec {shlex.join(map(str, line))} ;;\n" for rank, line in enumerate(words))
        return call([*cli_support.MPIRUN, "-n", len(programs), "sh", "-c",
                     f"case $OMPI_COMM_WORLD_RANK in\n{cases}esac"], code=3).stderr

    def check_blames_sample(self, log, data, group):
        self.assertRegex(log, rf"\[{data}:/{group}/samples\] sample 177 holds a value that is not "
                              r"finite; expected finite numbers, got nan at \[0,3,4\]")
        self.assertNotIn("learning", log.lower())
        self.assertNotIn("come again", log)

    def test_nan_in_a_sample_is_named(self):
        data = self.h5py_file("nan", lambda x, _: x[177, 0].__setitem__((3, 4), np.nan))
        done = self.train_on(data, "--epochs", 1, code=3)
        self.check_blames_sample(done.stderr, data, "train")
        self.assertIn("without checksums: first reads are unverified", done.stderr)
        for arch in ["--arch", "ring"], ["--arch", "servers", "--mode", "asgd"]:
            job = ["--data", data, "--out", self.out(), "--overwrite", *arch]
            self.check_blames_sample(self.ranks(job, job, job), data, "train")
        whole = self.h5py_file("whole")
        self.train_on(whole, "--epochs", 1, "--overwrite")
        model = self.out() / "model.h5"
        done = run("eval", "--data", data, "--model-file", model, "--group", "train", code=3)
        self.check_blames_sample(done.stderr, data, "train")
        self.assertIn("unverified", run("eval", "--data", whole, "--model-file", model).stderr)
        self.assertNotIn("unverified", run("eval", "--data", self.data, "--model-file", model).stderr)

    def test_nan_in_the_test_group_ends_every_mode(self):
        data = self.h5py_file("nan", lambda _, x_test: x_test[177, 0].__setitem__((3, 4), np.nan))
        self.check_blames_sample(self.train_on(data, "--epochs", 1, code=3).stderr, data, "test")
        # Here snapshots are evaluated beside training.
        job = ["--data", data, "--out", self.out(), "--overwrite", "--arch", "servers", "--mode", "asgd"]
        self.check_blames_sample(self.ranks(job, job, job), data, "test")
        self.assertEqual(events(self.out(), "evaluation"), [])

    def test_ranks_must_find_the_same_data(self):
        one, other = self.h5py_file("one"), self.h5py_file("other", seed=5)
        jobs = [["--data", data, "--out", self.out(), "--arch", "ring"] for data in (one, one, other)]
        self.assertIn("find different data", self.ranks(*jobs))
        self.assertFalse(self.out().exists())

    def test_ranks_must_start_from_the_same_weights(self):
        data = self.h5py_file("one")
        self.train_on(data, "--epochs", 1)
        model = self.out().with_suffix(".h5")
        (self.out() / "model.h5").rename(model)
        job = ["--data", data, "--out", self.out(), "--overwrite", "--arch", "ring"]
        self.assertIn("networks or initial weights", self.ranks(job, job, [*job, "--init", model]))

    def test_a_run_goes_on_with_its_own_data_only(self):
        data, other = self.h5py_file("one"), self.h5py_file("other", seed=5)
        budget = ["--samples", 600, "--checkpoint-every-samples", 200]
        self.train_on(data, *budget)
        self.train_on(data, *budget, "--resume")
        other.replace(data)
        done = self.train_on(data, *budget, "--resume", code=3)
        self.assertIn("belongs to another run: dataset differs", done.stderr)

    def test_import_refuses_ids_as_labels(self):
        rows = ["id,a,b,label"] + [f"{i},{i % 7},{i % 5},{i % 3}" for i in range(300)]
        source = self.folder / "ids.csv"
        source.write_text("\n".join(rows) + "\n")
        output = self.folder / "ids.h5"
        words = ["import", "--input", source, "--output", output, "--test-fraction", 0.1]
        done = run(*words, "--label-column", "id", code=3)
        self.assertRegex(done.stderr, r"\[.*ids.csv\] the labels seem to be ids: they make 300 classes of "
                                      r"300 samples.*0 to at most 149, got 299 for sample 299")
        self.assertFalse(output.exists())
        run(*words, "--label-column", "label")
        words.append("--overwrite")
        run(*words, "--label-column", "id", "--classes", 300)
        run(*words, "--label-column", "id", "--classes", 2_000_000_000, code=3)

    def test_sizes_of_images_are_checked(self):
        words = ["import", "--input", self.folder, "--output", self.folder / "x.h5"]
        for size in ("0x5", "224", "4x", "x4", "4x4x4", "99999x4"):
            self.assertIn("[--size]", run(*words, "--format", "folder", "--size", size, code=2).stderr)
        self.assertIn("--format folder", run(*words, "--size", "4x4", code=2).stderr)
        log = run(*words, "--format", "folder", "--shape", "1,4,4", code=2).stderr
        self.assertIn("--size instead of --shape", log)

    def test_doubts_about_a_set_are_named(self):
        path = self.folder / "doubts.h5"
        with h5py.File(path, "w") as f:
            f.attrs.update(format="cohort-dataset", version=1, classes=4, mean=[0.485] * 12, std=[0.229] * 12)
            for group in "train", "test":
                f[f"{group}/samples"] = np.full((8, 12, 12, 3), 200, np.uint8)
                f[f"{group}/labels"] = np.zeros(8, np.int32)
        log = run("info", "--data", path).stdout
        self.assertIn("multiply both by 255", log)
        self.assertIn("look like [H,W,C]", log)
        log = run("info", "--data", self.data).stdout
        self.assertNotIn("multiply", log)
        self.assertNotIn("look like", log)

    def test_a_pipe_is_an_error_at_once(self):
        pipe = self.folder / "pipe.csv"
        os.mkfifo(pipe)
        for words in (["train", "--data", pipe, "--out", self.out()], ["train", "--config", pipe],
                      ["eval", "--data", self.data, "--model-file", pipe], ["info", "--data", pipe],
                      ["import", "--input", pipe, "--output", self.folder / "x.h5",
                       "--test-fraction", 0.1],
                      ["simulate", "--data", pipe],
                      ["simulate", "--data", self.data, "--profile", pipe],
                      ["simulate", "--data", self.data, "--trace", pipe],
                      ["trace", "show", "--trace", pipe], ["report", pipe],
                      ["sweep", pipe, "--out", self.out()]):
            log = run(*words, code=3).stderr
            self.assertRegex(log, r"pipe.csv\].*expected a regular file, got a pipe", words)


if __name__ == "__main__":
    cli_support.main()
