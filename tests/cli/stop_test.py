#!/usr/bin/env python3
"""Stopping and resuming the program by signals.   stop_test.py COHORT"""

import contextlib
import shutil
import signal
import subprocess
import time

import cli_support
from cli_support import ProgramTest, events, left_s, tensors, wait_until

SAMPLES = 4000  # three seconds and more, most of them asleep
ARGUMENTS = ["--samples", SAMPLES, "--lr", 0.02, "--lr-schedule", "cosine:0.1",
             "--augment", "pad-crop:1,flip"]
DELAYED = (*ARGUMENTS, "--inject", "rank=0,delay=15ms")


class Stopping(ProgramTest):

    def start_and_stop(self, number, while_it_runs=lambda: None, arguments=DELAYED):
        """Starts a run, sends the signal once it trains, returns exit code and messages."""
        command = [cli_support.PROGRAM, "train", "--data", self.data, "--out", self.out(),
                   "--model", "smallcnn", "--batch", 20, "--threads", 1, "--deterministic",
                   "--log-every-s", 0.01, *arguments]
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
                        "--batch", 20, "--threads", 1, "--deterministic", *DELAYED)
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

    def test_a_stop_is_heard_during_a_long_delay(self):
        delays = "rank=0,delay=15ms,to=1s;rank=0,delay=100000s,from=1s"
        code, messages = self.start_and_stop(signal.SIGTERM, lambda: time.sleep(1.5),
                                             (*ARGUMENTS, "--inject", delays))
        self.assertEqual(code, 75, messages)
        self.assertLess(events(self.out(), "summary")[-1]["samples_applied"], SAMPLES)

    def test_what_is_deleted_or_moved_in_mid_run_is_written_anew(self):
        out = self.out()
        metrics = out / "metrics.jsonl"
        changes = {"file": metrics.unlink, "folder": lambda: shutil.rmtree(out, ignore_errors=True),
                   "renamed": lambda: out.rename(self.folder / "elsewhere")}
        for name, change in changes.items():
            with self.subTest(name):
                before = []

                def while_it_runs(change=change, before=before):
                    change()
                    wait_until(metrics.exists, "it is written anew")
                    before.append(len(events(out, "train")))
                    second = self.train(*DELAYED, "--overwrite", code=2)
                    self.assertIn("another run writes here", second.stderr)

                code, messages = self.start_and_stop(signal.SIGTERM, while_it_runs)
                self.assertEqual(code, 75, messages)
                self.assertIn("deleted or moved while the run writes there", messages)
                lines = events(out)
                self.assertEqual([lines[0]["event"], lines[-1]["event"]], ["start", "summary"])
                self.assertEqual(sum(line["event"] == "start" for line in lines), 1)
                self.assertGreater(len(events(out, "train")), before[0])
                applied = [line["samples_applied"] for line in lines if line["event"] == "train"]
                self.assertEqual(applied, sorted(set(applied)), "none is lost or there twice")
                self.train("--samples", SAMPLES, "--resume")  # from the checkpoint that it left
                shutil.rmtree(out)

    def test_a_deleted_lock_lets_nobody_in(self):
        def while_it_runs():
            (self.out() / "run.lock").unlink()
            for _ in range(3):
                second = self.train(*DELAYED, "--overwrite", code=2)
                self.assertIn("another run writes here", second.stderr)

        code, messages = self.start_and_stop(signal.SIGTERM, while_it_runs)
        self.assertEqual(code, 75, messages)

    def test_a_folder_that_cannot_be_made_anew_ends_the_run(self):
        def while_it_runs():
            for _ in range(20):  # until it is quicker than the run, which looks twice a second
                shutil.rmtree(self.out(), ignore_errors=True)
                with contextlib.suppress(IsADirectoryError):
                    self.out().write_text("something else")
                    break
            time.sleep(1.5)

        code, messages = self.start_and_stop(signal.SIGUSR1, while_it_runs)
        self.assertEqual(code, 3, messages)
        self.assertEqual(self.out().read_text(), "something else")
        self.out().unlink()

    def test_one_run_per_folder_until_it_ends_however(self):
        def second_run():
            second = self.train(*DELAYED, "--overwrite", code=2)
            self.assertRegex(second.stderr, r"another run writes here; got process \d+ on \S+")

        code, messages = self.start_and_stop(signal.SIGKILL, second_run)
        self.assertEqual(code, -signal.SIGKILL, messages)
        self.train("--samples", 20, "--overwrite")


if __name__ == "__main__":
    cli_support.main()
