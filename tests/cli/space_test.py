#!/usr/bin/env python3
"""Training on a disk that is too small, or becomes so, and in too small an address space.   space_test.py COHORT

The disk is a tmpfs, which only root may mount.
"""

import pathlib
import subprocess
import tempfile

import cli_support
from cli_support import ProgramTest, left_s, run, wait_until

MIB = 1 << 20


class SmallDisk(ProgramTest):

    def disk(self, size_bytes):
        """A file system of this size."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-disk-"))
        self.addCleanup(folder.rmdir)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", folder],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest("no permission to mount a small disk: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def words(self, disk, *more):
        return ["train", "--data", self.data, "--out", disk / "run", "--model", "resnet20", "--batch", 20,
                "--threads", 1, "--checkpoint-every-samples", 100, *more]

    def test_a_run_that_does_not_fit_is_not_begun(self):
        disk = self.disk(MIB)
        done = run(*self.words(disk, "--samples", 400, "--dry-run"), code=3)
        self.assertIn("MiB free", done.stderr)
        self.assertIn("checkpoints of", done.stderr)
        run(*self.words(disk, "--samples", 400), code=3)
        self.assertEqual(list(disk.iterdir()), [])
        run(*self.words(self.folder, "--samples", 20))

    def test_old_checkpoints_are_given_up_for_the_model(self):
        disk = self.disk(40 * MIB)
        command = [str(cli_support.PROGRAM), *map(str, self.words(
            disk, "--samples", 600, "--inject", "rank=0,delay=150ms", "--seed", 3))]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
            wait_until(lambda: len(self.checkpoints(disk)) >= 2, "two checkpoints", lambda: job.poll() is None)
            self.fill(disk)
            _, log = job.communicate(timeout=left_s())
        self.assertIn("is deleted to make room", log)
        self.assertEqual(job.returncode, 3, log)  # the last checkpoint is missing
        self.assertEqual(len(self.checkpoints(disk)), 1)
        self.assertEqual((disk / "run/exit_code").read_text().splitlines()[0], "3")
        run("eval", "--data", self.data, "--model-file", disk / "run/model.h5")

    @staticmethod
    def checkpoints(disk):
        return list((disk / "run/checkpoints").glob("step-????????????.h5"))

    @staticmethod
    def fill(disk):
        """Takes what is free, but for some lines of metrics."""
        with open(disk / "ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                ballast.truncate(ballast.tell() - 65536)


class SmallAddressSpace(ProgramTest):
    """As `ulimit -v` and batch systems set it."""

    def code(self, mib):
        """Exit code of a run with a convolution and two threads."""
        limit = int(mib * MIB)
        command = [cli_support.PROGRAM, "train", "--data", self.data, "--out", self.out(), "--overwrite", "--model",
                   "lenet", "--batch", 20, "--threads", 2, "--samples", 40]
        done = subprocess.run(
            ["bash", "-c", f'ulimit -v {limit // 1024}; exec "$@"', "bash", *map(str, command)],
            capture_output=True, text=True, timeout=left_s(), check=False)
        self.assertIn(done.returncode, (0, 3, 5), f"{mib} MiB: {done.stderr}")
        if done.returncode == 3:  # memory ended where a result was saved
            self.assertIn("could not be saved", done.stderr, f"{mib} MiB")
        if done.returncode != 0:
            self.assertRegex(done.stderr, "memory|refused", f"{mib} MiB")
        return done.returncode

    def test_where_it_ends_the_run_says_so(self):
        enough = 4096
        self.assertEqual(self.code(enough), 0)
        step = enough / 2
        while step >= 1:
            enough -= step if self.code(enough - step) == 0 else 0
            step /= 2
        for short in range(1, 48, 3):
            self.code(enough - short)


if __name__ == "__main__":
    cli_support.main()
