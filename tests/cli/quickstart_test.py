#!/usr/bin/env python3
"""jobs/quickstart.sh with each kind of option.   quickstart_test.py COHORT

The packages and the build are left out: the script finds the program of this build, and a small
data set in the place of its own.
"""

import os
import pathlib
import shutil
import subprocess
import sys
from unittest import mock

import cli_support
from cli_support import ProgramTest, events, left_s

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
import samples  # noqa: E402
import time_to_accuracy  # noqa: E402

TAKES = r"\d+ samples/s: training on {} samples{} takes about \d+ "


class Quickstart(ProgramTest):

    def setUp(self):
        self.tree = self.out()
        for folder in ("jobs", "tools", "build/release/jobs", "data"):
            (self.tree / folder).mkdir(parents=True)
        for script in ("quickstart.sh", "launch.sh"):
            shutil.copy(ROOT / "jobs" / script, self.tree / "jobs")
        shutil.copytree(ROOT / "jobs/launch", self.tree / "jobs/launch")
        for nothing in ("jobs/install_deps.sh", "tools/cmake"):
            (self.tree / nothing).write_text("#!/bin/sh\n")
            (self.tree / nothing).chmod(0o755)
        (self.tree / "build/release/jobs/cohort").symlink_to(cli_support.PROGRAM)
        shutil.copy(self.data, self.tree / "data/fashion-mnist.h5")

    def quickstart(self, *arguments, code=0):
        """Runs the script with a small network, returns what it printed and logged."""
        return self.run_script("--model", "smallcnn", "--threads", "1", *arguments, code=code)

    def run_script(self, *arguments, code=0):
        done = subprocess.run(
            ["jobs/quickstart.sh", *map(str, arguments)],
            cwd=self.tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left_s(), check=False,
            env={**os.environ, "PATH": f"{self.tree}/tools:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def applied(self, out="runs/quickstart"):
        return events(self.tree / out)[-1]["samples_applied"]

    def test_own_choices_and_those_given(self):
        shown = self.quickstart("--epochs", 2)
        self.assertNotIn("slow worker costs", shown)
        self.assertRegex(shown, TAKES.format("1,200", ", 2 times,"))
        self.assertRegex(shown, "servers ssgd +ring ring")
        for arch, rank in (("servers", 4), ("ring", 3)):
            out = f"runs/quickstart/{arch}"
            self.assertEqual(self.applied(out), 2 * 600)
            self.assertEqual(events(self.tree / out)[-1]["workers"], 4)
            self.assertEqual(events(self.tree / out, "start")[0]["model"], "smallcnn")
            self.assertIn(f"(rank {rank}) computes at half its speed", shown)
        self.quickstart("--arch", "servers", "--servers", 2, "--mode", "asgd", "--samples", 200)
        summary = events(self.tree / "runs/quickstart")[-1]
        self.assertEqual([summary[name] for name in ("servers", "workers", "mode", "updates")],
                         [2, 4, "asgd", 7])
        self.quickstart("--epochs=1", "--overwrite", "--mode", "ring", "--arch", "ring")
        self.assertEqual(self.applied(), 600)
        shown = self.quickstart("--epochs", 2, "--arch", "ring", "--resume")
        self.assertEqual(self.applied(), 1200)
        self.assertNotRegex(shown, TAKES.format(".*", ".*"))  # nothing says how much of the work is done

    def test_without_options_it_ends_with_what_a_slow_worker_costs(self):
        shown = self.run_script()
        self.assertRegex(shown, "servers ssgd +ring ring")
        self.assertRegex(shown, TAKES.format("600", ", 2 times,"))
        self.assertEqual(self.applied("runs/quickstart/ring"), 600)
        table = shown.split("== one of 4 workers at a quarter of the others' speed\n")[1].splitlines()
        self.assertIn("seconds to 0.80", table[0])
        for mode, line in zip(("ssgd", "adaptive"), table[1:]):
            out = f"runs/quickstart/{mode}"
            self.assertEqual(events(self.tree / out, "start")[0]["inject"],
                             "rank=1,sample=2ms;rank=2,sample=2ms;rank=3,sample=2ms;rank=4,sample=8ms")
            reached = events(self.tree / out)[-1]["tta_s"]
            self.assertRegex(line, f"^{mode} +{reached:.1f} ")
        self.assertRegex(table[3], r"adaptive takes -?\d+ % less time than ssgd")
        self.assertTrue((self.tree / "runs/quickstart/compare.html").is_file())
        for page, name in (("README.md", "slow-worker"), ("docs/runs.md", "run")):
            self.assertEqual(samples.differences(page, name, shown), [])
        picture = time_to_accuracy.draw([self.tree / "runs/quickstart" / mode for mode in ("ssgd", "adaptive")], 0.8)
        self.assertIn(f"adaptive: {reached:.1f} s", picture)

    def test_shows_the_folder_that_was_used(self):
        (self.tree / "data/fashion-mnist.h5").unlink()
        shown = self.quickstart("--data", self.data, "--out", "else where", "--samples", 40)
        self.assertIn("else where/model.h5", shown)
        self.assertEqual(self.applied("else where"), 40)
        self.assertFalse((self.tree / "runs").exists())

    def test_a_config_file_is_obeyed(self):
        (self.tree / "job.toml").write_text('out = "from-file"\nsamples = 60\nbatch = 30\n')
        self.assertIn("from-file/model.h5", self.quickstart("--config", "job.toml"))
        self.assertEqual(events(self.tree / "from-file")[-1]["updates"], 1)

    def test_a_slow_machine_trains_on_fewer_samples(self):
        """The 600 samples of an epoch, one every 100 ms from each of four workers, would take some 15 s."""
        with mock.patch.dict(os.environ, TRAINING_S="3"):
            shown = self.quickstart("--arch", "servers", "--batch", 1, "--compute", "sleep:100ms")
        self.assertRegex(shown, TAKES.format(self.applied(), ""))
        self.assertLess(self.applied(), 600)

    def test_a_model_of_text_trains_on_text_and_writes(self):
        (self.tree / "a.txt").write_text("In the beginning was the word.\n" * 200)
        cli_support.run("import", "--format", "text", "--input", self.tree / "a.txt", "--test-fraction", 0.1,
                        "--context", 8, "--output", self.tree / "data/kjv.h5")
        shown = self.run_script("--model", "gpt:16,1,2", "--threads", "1", "--epochs", 2, "--batch", 8)
        start = events(self.tree / "runs/quickstart/ring", "start")[0]
        self.assertEqual((start["data"], start["optimizer"]), ("data/kjv.h5", "adamw"))
        self.assertRegex(shown, r"test perplexity +\d+\.\d\d +\d+\.\d\d\n")
        self.assertEqual(shown.split("== what the model writes\n")[1].count("In the beginning"), 2)
        self.assertNotIn("what the model writes", self.quickstart("--samples", 40, "--arch", "ring"))

    def test_old_results_are_not_shown_as_new(self):
        self.quickstart("--arch", "ring", "--samples", 40)
        self.assertIn("--lr-schedule", self.quickstart("--help"))
        for option in ("--dry-run", "--dump-config"):
            self.assertNotIn("== result", self.quickstart(option))
        self.assertNotIn("== result", self.quickstart("--batch", "many", code=2))
        self.assertEqual(self.applied(), 40)


if __name__ == "__main__":
    cli_support.main()
