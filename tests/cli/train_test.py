#!/usr/bin/env python3
"""The program from outside: commands, exit codes, files.   train_test.py COHORT"""

import json
import pathlib
import re
import resource
import signal
import subprocess

import cli_support
from cli_support import ProgramTest, events, left_s, run


class Commands(ProgramTest):

    def test_help_and_version(self):
        for command in ([], ["train"], ["eval"], ["import"], ["info"], ["bench"],
                        ["bench", "engine"]):
            self.assertIn("--help", run(*command, "--help").stdout)
        version = run("--version").stdout
        self.assertRegex(version, r"^cohort \d+\.\d+\.\d+, revision \w+(-dirty)?, \w+ build by \w+ [\d.]+")
        self.assertTrue(run("info").stdout.startswith(version), "the same facts")

    def test_info_compares_layers_with_the_core(self):
        said = run("info", "--model", "lenet", "--data", self.data, "--speed").stdout
        found = re.search(r"^speed on one core: ([\d.]+) GF/s in training steps of 8 samples, ([\d.]+) GF/s in the core's "
                          r"product of matrices$", said, re.M)
        step, product = map(float, found.groups())
        self.assertGreater(product, step)
        self.assertGreater(step, 0)
        self.assertRegex(said, r"(?m)^(no layer that counts is slow|layers are slow) on this processor")
        self.assertIn("[--speed]", run("info", "--speed", code=2).stderr)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for command in (["info"], ["--help"], ["--version"], ["info", "--dump-config"]):
                done = subprocess.run([cli_support.PROGRAM, *command], stdout=full, text=True,
                                      stderr=subprocess.PIPE, timeout=left_s(), check=False)
                self.assertEqual(done.returncode, 3, command)
                self.assertIn("[standard output]", done.stderr)

    def test_tasks_that_nobody_joins_do_not_all_train(self):
        step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
        self.assertIn("srun --mpi=pmix", self.train(code=2, environment=step).stderr)
        self.assertFalse(self.out().exists())
        run("info", environment=step)
        run("train", "--help", environment=step)

    def test_dry_run_checks_and_writes_nothing(self):
        done = self.train("--dry-run", "--lr", 0.25)
        self.assertRegex(done.stderr, r"lr = 0.25 +\(command line\)")
        self.assertNotIn("momentum", done.stderr)
        self.assertFalse(self.out().exists())

    def test_dry_run_checks_the_output_folder(self):
        below = ["--data", self.data, "--out", self.data / "below-a-file"]
        run("train", *below, "--dry-run", code=3)
        self.train("--samples", 40)
        before = {path: path.stat().st_mtime_ns for path in self.out().rglob("*")}
        self.assertIn("--overwrite", self.train("--dry-run", code=2).stderr)
        self.train("--dry-run", "--overwrite")
        self.train("--dry-run", "--resume")
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.out().rglob("*")}, before)

    def test_config_file(self):
        config = self.folder / "job.toml"
        self.assertIn('out = "größe"', run("train", "--data", "a.h5", "--out", "größe",
                                            "--dump-config").stdout)
        dump = self.train("--lr", 0.25, "--dump-config").stdout
        config.write_text(dump)
        done = run("train", "--config", config, "--batch", 10, "--dry-run")
        self.assertRegex(done.stderr, r"lr = 0.25 +\(.*job.toml\)")
        self.assertRegex(done.stderr, r"batch = 10 +\(command line\)")
        self.assertEqual(run("train", "--config", config, "--dump-config").stdout, dump)

    def test_info(self):
        text = run("info", "--data", self.data, "--model", "resnet20", "--verify").stdout
        for part in ("oneDNN", "HDF5", "Open MPI", "CUDA", " core", "600 samples", "conv1",
                     "parameters", "checksum"):
            self.assertIn(part, text)

    def test_bench_prints_one_json_line(self):
        text = run("bench", "engine", "--model", "smallcnn", "--batch", 4, "--steps", 3,
                   "--threads", 0, "--json").stdout
        self.assertEqual(text.count("\n"), 1)
        record = json.loads(text)
        self.assertEqual(record["steps"], 3)
        self.assertAlmostEqual(record["per_second"], 4 / record["median_s"])
        self.assertGreater(record["peak_bytes"], record["arena_bytes"])
        self.assertLessEqual(record["min_s"], record["median_s"])
        self.assertGreater(record["threads"], 0)
        profile = run("bench", "engine", "--model", "smallcnn", "--batch", 4, "--steps", 3,
                      "--profile").stdout
        self.assertIn("convolutions", profile)


class Training(ProgramTest):

    def test_end_to_end(self):
        self.train("--epochs", 4, "--augment", "none", "--target-accuracy", 1)
        summary = events(self.out(), "summary")[-1]
        self.assertEqual(summary, events(self.out())[-1])
        self.assertGreater(summary["test_accuracy"], 0.8)
        self.assertEqual(summary["samples_leased"], summary["samples_applied"]
                         + summary["samples_returned"] + summary["samples_outstanding"])
        shown = json.loads(run("eval", "--data", self.data, "--json", "--threads", 1,
                               "--model-file", self.out() / "model.h5").stdout)
        self.assertAlmostEqual(shown["accuracy"], summary["test_accuracy"])
        self.assertIn("accuracy", run("eval", "--data", self.data, "--group", "train",
                                      "--model-file", self.out() / "model.h5").stdout)

    def test_results_are_not_replaced_unasked(self):
        self.train("--samples", 40)
        self.assertIn("--overwrite", self.train("--samples", 40, code=2).stderr)
        self.train("--samples", 60, "--overwrite")
        self.assertEqual(events(self.out(), "summary")[0]["samples_applied"], 60)

    def test_divergence(self):
        self.assertIn("samples applied",
                      self.train("--lr", 1e30, "--epochs", 20, code=6).stderr)
        self.assertEqual(events(self.out())[-1]["event"], "error")

    def test_full_disk_does_not_stop_training_and_is_told_at_the_end(self):
        def little_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = self.train("--samples", 200, "--checkpoint-every-samples", 100, code=3,
                          preexec_fn=little_room)
        self.assertIn("checkpoint could not be saved", done.stderr)
        self.assertIn("model could not be saved", done.stderr)
        self.assertIn("200 samples in 10 updates", done.stderr)
        self.assertEqual(list(pathlib.Path(self.out()).glob("**/*.h5")), [])


if __name__ == "__main__":
    cli_support.main()
