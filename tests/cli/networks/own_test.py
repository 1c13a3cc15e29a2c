#!/usr/bin/env python3
"""A program that links the library trains its own network on its own samples: killed, it goes on to the
same bits.

    own_test.py COHORT OWN_NETWORK MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import cli_support  # noqa: E402
from cli_support import MPIRUN, call, events, run, tensors, wait_until  # noqa: E402

RANKS = 4


class OwnNetworkTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-own-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    @staticmethod
    def command(*arguments):
        program, *mpirun = MPIRUN
        return [str(word) for word in (*mpirun, "-n", RANKS, program, *arguments)]

    @staticmethod
    def ranks_of(out):
        """Process ids of mpirun and its ranks, by the folder on their command lines."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if str(out).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:
                pass  # it has ended
        return found

    def killed_after_first_checkpoint(self):
        """The folder of a job whose ranks were all killed at once, as by a node that loses its power.

        The whole job takes half a second on a fast processor: one that ended before it was killed is tried again.
        """
        for attempt in range(10):
            out = self.folder / f"killed-{attempt}"
            self.kill_after_first_checkpoint(out)
            if not (out / "model.h5").exists():
                return out
        raise AssertionError("ten jobs ended before they could be killed")

    def kill_after_first_checkpoint(self, out):
        with subprocess.Popen(self.command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            wait_until(lambda: [path for path in out.glob("checkpoints/step-*.h5") if "shard" not in path.name],
                       "a checkpoint, before which the job is not killed", lambda: job.poll() is None)
            while ranks := self.ranks_of(out):
                for pid in ranks:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                job.poll()

    def test_learns_and_goes_on_after_a_kill(self):
        whole = self.folder / "whole"
        said = call(self.command(whole)).stdout
        self.assertIn("of 32000 samples: test accuracy", said)
        summary = events(whole, "summary")[-1]
        self.assertEqual(summary["workers"], RANKS)
        self.assertEqual(summary["samples_applied"], 32000)
        self.assertGreater(summary["test_accuracy"], 0.9)

        killed = self.killed_after_first_checkpoint()
        call(self.command(killed, "--resume"))
        self.assertGreater(events(killed, "resume")[0]["samples_applied"], 0)
        self.assertEqual(events(killed, "summary")[-1]["samples_applied"], 32000)
        self.assertEqual(tensors(whole), tensors(killed))

    def test_another_network_does_not_go_on(self):
        out = self.folder / "other"
        call(self.command(out))
        data = cli_support.make_data(self.folder)
        failed = run("train", "--data", data, "--model", "softmax", "--out", out, "--resume", "--batch", 16,
                     code=3)
        self.assertIn("belongs to another run", failed.stderr)


if __name__ == "__main__":
    cli_support.main()
