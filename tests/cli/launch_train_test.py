#!/usr/bin/env python3
"""jobs/launch.sh with cohort on four ranks: stopped, killed, resumed.

    launch_train_test.py COHORT ROOT
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import cli_support
from cli_support import ProgramTest, events, left_s, ranks_of, tensors, wait_until

ROOT = None
RANKS = 4
SAMPLES = 6000  # three seconds and more, which a rank spends asleep
ARCHITECTURES = {"ring": ["--arch", "ring"], "servers": ["--arch", "servers", "--servers", 1]}


def parent(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(text.rsplit(")", 1)[1].split()[1])


def segments(pids):
    """The files of memory that Open MPI shares between these processes."""
    texts = (pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8") for pid in pids)
    return {pathlib.Path(name) for text in texts
            for name in re.findall(r"/dev/shm/(?:vader|sm)_segment\S+", text)}


class LaunchTrain(ProgramTest):

    def start(self, *arguments, options=()):
        command = [ROOT / "jobs/launch.sh", "-n", RANKS, "--interfaces", "lo", *options, "--", "train",
                   "--data", self.data, "--out", self.out(), "--model", "smallcnn", "--batch", 10,
                   "--threads", 1, "--deterministic", "--log-every-s", 0.01,
                   "--samples", SAMPLES,
                   "--inject", "rank=1,delay=20ms", *arguments]
        return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "COHORT": str(cli_support.PROGRAM)})

    def out(self):
        return self.folder / self.id().rsplit(".", 1)[-1] / self.architecture

    def wait_for(self, launcher, event):
        metrics = self.out() / "metrics.jsonl"
        wait_until(lambda: metrics.exists() and f'"{event}"' in metrics.read_text(), f"{event} in {metrics}",
                   lambda: launcher.poll() is None)

    def finish(self, launcher, code):
        messages = launcher.communicate(timeout=left_s())[1]
        self.assertEqual(launcher.returncode, code, messages)
        return messages

    def each_architecture(self):
        for self.architecture, words in ARCHITECTURES.items():
            with self.subTest(arch=self.architecture):
                self.out().mkdir(parents=True)
                yield words

    def test_a_stopped_run_goes_on_bit_for_bit(self):
        for words in self.each_architecture():
            launcher = self.start(*words)
            self.wait_for(launcher, "train")
            launcher.send_signal(signal.SIGINT)
            messages = self.finish(launcher, 75)
            self.assertEqual((self.out() / "exit_code").read_text().split()[0], "75")
            stopped = events(self.out(), "summary")[-1]["samples_applied"]
            self.assertLess(stopped, SAMPLES)
            self.assertEqual(messages.count("to continue"), 1, messages)
            command = messages.split("to continue from the newest checkpoint: ")[1].splitlines()[0]
            cli_support.call([command], shell=True, environment={"COHORT": str(cli_support.PROGRAM)})
            self.assertEqual(events(self.out(), "summary")[-1]["samples_applied"], SAMPLES)
            stopped_and_resumed = tensors(self.out())
            self.finish(self.start(*words, "--overwrite"), 0)
            self.assertEqual(tensors(self.out()), stopped_and_resumed)

    def test_a_killed_rank_leaves_code_and_reason(self):
        for words in self.each_architecture():
            launcher = self.start(*words, "--max-lost", 0)
            self.wait_for(launcher, "train")
            os.kill(ranks_of(launcher)[RANKS - 1], signal.SIGKILL)
            self.assertIn("has died", self.finish(launcher, 4))
            code, reason = (self.out() / "exit_code").read_text().splitlines()
            self.assertEqual(code, "4")
            self.assertIn("has died", reason)
            errors = events(self.out(), "error")
            self.assertEqual([line["exit_code"] for line in errors], [4])
            self.assertIn("has died", errors[0]["message"])

    def test_after_a_killed_rank_it_starts_again(self):
        for words in self.each_architecture():
            launcher = self.start(*words, "--checkpoint-every-samples", 1000,
                                  "--max-lost", 0, options=["--restarts", 1])
            self.wait_for(launcher, "checkpoint")
            os.kill(ranks_of(launcher)[RANKS - 1], signal.SIGKILL)
            messages = self.finish(launcher, 0)
            self.assertIn("starting again with --resume", messages)
            self.assertEqual(events(self.out(), "summary")[-1]["samples_applied"], SAMPLES)
            self.assertTrue(events(self.out(), "resume"), messages)

    def test_shared_memory_of_a_killed_job_goes_with_the_next_start(self):
        self.architecture = "ring"
        self.out().mkdir(parents=True)
        launcher = self.start()
        self.wait_for(launcher, "train")
        ranks = list(ranks_of(launcher).values())
        left = segments(ranks)
        self.assertEqual(len(left), RANKS)
        mpirun = parent(parent(ranks[0]))  # a shell is between them
        for pid in [mpirun, *ranks]:
            os.kill(pid, signal.SIGKILL)
        self.finish(launcher, 137)
        for path in left:
            os.utime(path, (time.time() - 30,) * 2)
        self.finish(self.start("--overwrite"), 0)
        self.assertFalse([path for path in left if path.exists()])


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(2)).resolve()
    cli_support.main()
