#!/usr/bin/env python3
"""Stopping and resuming the program by signals.   stop_test.py COHORT"""

import shutil
import signal
import subprocess

import cli_support
from cli_support import ProgramTest, events, left_s, tensors, wait_until

SAMPLES = 4000  # three seconds and more, most of them asleep
ARGUMENTS = ["--samples", SAMPLES, "--lr", 0.02, "--lr-schedule", "cosine:0.1",
             "--augment", "pad-crop:1,flip", "--inject", "rank=0,delay=15ms"]


class Stopping(ProgramTest):

    def start_and_stop(self, number, while_it_runs=lambda: None):
        """Starts a run, sends the signal once it trains, returns exit code and messages."""
        command = [cli_support.PROGRAM, "train", "--data", self.data, "--out", self.out(),
                   "--model", "smallcnn", "--batch", 20, "--threads", 1, "--deterministic",
                   "--log-every-s", 0.01, *ARGUMENTS]
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as run:
            metrics = self.out() / "metrics.jsonl"
            wait_until(lambda: metrics.exists() and '"train"' in metrics.read_text(), "it trains",
                       lambda: run.poll() is None)
            while_it_runs()
            run.send_signal(number)
            messages = run.communicate(timeout=left_s())[1]
        return run.returncode, messages

    def test_each_signal_checkpoints_and_resumes_bit_for_bit(self):
        straight = self.folder / "straight"
        cli_support.run("train", "--data", self.data, "--out", straight, "--model", "smallcnn",
                        "--batch", 20, "--threads", 1, "--deterministic", *ARGUMENTS)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal=number.name):
                code, messages = self.start_and_stop(number)
                self.assertEqual(code, 75, messages)
                stopped = events(self.out(), "summary")[-1]
                self.assertEqual(stopped["stop_reason"], "signal")
                self.assertLess(stopped["samples_applied"], SAMPLES)
                self.assertEqual(events(self.out(), "checkpoint")[-1]["samples_applied"],
                                 stopped["samples_applied"])
                command = messages.split("to continue: ")[1].splitlines()[0]
                done = cli_support.call([command], shell=True)
                self.assertIn(f"{stopped['samples_applied']} samples applied", done.stderr)
                self.assertEqual(events(self.out())[-1]["samples_applied"], SAMPLES)
                self.assertEqual(tensors(self.out()), tensors(straight))
                shutil.rmtree(self.out())

    def test_one_run_per_folder_until_it_ends_however(self):
        def second_run():
            second = self.train(*ARGUMENTS, "--overwrite", code=2)
            self.assertRegex(second.stderr, r"another run writes here; got process \d+ on \S+")

        code, messages = self.start_and_stop(signal.SIGKILL, second_run)
        self.assertEqual(code, -signal.SIGKILL, messages)
        self.train("--samples", 20, "--overwrite")


if __name__ == "__main__":
    cli_support.main()
