"""Ranks that die, freeze, throw or come late: the job ends without them, says why, leaves nobody."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s, wait_until  # noqa: E402

PROGRAM = None
MPIRUN = None
RANKS = 3


def left_over(folder):
    """Processes of a job, found by the folder on their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and folder.encode() in (entry / "cmdline").read_bytes():
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(entry.name)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
    return [pid for pid in found if pid != str(os.getpid())]


class Faults(unittest.TestCase):

    def job(self, scenario, rank, *options):
        """Runs a job that fails; returns exit code, log and the records that ranks left."""
        with tempfile.TemporaryDirectory(prefix="cohort-fault-") as folder:
            done = subprocess.run(
                [*MPIRUN, *options, "-n", str(RANKS), PROGRAM, scenario, str(rank), folder],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left_s())
            self.assertEqual(left_over(folder), [], done.stdout)
            records = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        return done.returncode, done.stdout, records

    def test_a_job_that_ends_well(self):
        code, log, records = self.job("well", 1)
        self.assertEqual((code, records), (0, {}), log)

    def test_death_under_recovery(self):
        for btl in ("self,vader,tcp", "self,tcp"):
            for rank in (0, 1):
                scenario = "exit" if rank == 0 else "kill"
                with self.subTest(btl=btl, rank=rank, scenario=scenario):
                    _, log, records = self.job(scenario, rank, "--enable-recovery", "--mca", "btl",
                                               btl)
                    self.assertRegex(log, rf"rank {rank} \(host \S+, pid \d+\) has died")
                    self.assertIn("parameters (#12): waiting for", log)
                    self.assertEqual(len(records), RANKS - 1, log)
                    for record in records.values():
                        self.assertTrue(record.startswith("4 "), record)

    def test_death_under_plain_mpirun(self):
        for scenario in ("kill", "busy-kill"):
            code, log, _ = self.job(scenario, 1)
            self.assertNotEqual(code, 0, log)

    def test_freeze(self):
        for options, rank in (((), 0), ((), 1), (("--enable-recovery",), 1),
                              (("--mca", "btl", "self,tcp"), 0)):
            with self.subTest(options=options, rank=rank):
                _, log, records = self.job("freeze", rank, *options)
                self.assertRegex(log, rf"rank {rank} \(host \S+, pid \d+\) is lost: nothing")
                self.assertGreaterEqual(len(records), RANKS - 1, log)

    def test_loss_while_much_is_under_way(self):
        for btl in ("self,vader,tcp", "self,tcp"):
            for scenario, reason in (("busy-kill", "has died"), ("busy-freeze", "is lost")):
                with self.subTest(btl=btl, scenario=scenario):
                    _, log, records = self.job(scenario, 1, "--enable-recovery", "--mca", "btl",
                                               btl)
                    self.assertRegex(log, rf"rank 1 \(host \S+, pid \d+\) {reason}")
                    self.assertGreaterEqual(len(records), RANKS - 1, log)

    def test_a_rank_that_never_starts_mpi(self):
        _, log, _ = self.job("absent", 1, "--enable-recovery")
        for rank in (0, 2):
            self.assertRegex(log, rf"rank {rank}: MPI start: not all ranks came within 2 s")

    def test_a_pause_of_all_ranks_is_no_stall(self):
        with tempfile.TemporaryDirectory(prefix="cohort-fault-") as name:
            folder = pathlib.Path(name)
            job = subprocess.Popen([*MPIRUN, "-n", str(RANKS), PROGRAM, "pause", "1", name],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(job.kill)
            files = [folder / f"ready.{rank}" for rank in range(RANKS)]
            wait_until(lambda: all(file.exists() and file.read_text() for file in files), "all ranks wait",
                       lambda: job.poll() is None)
            ranks = [int(file.read_text()) for file in files]
            for number, pause in ((signal.SIGSTOP, 5), (signal.SIGCONT, 0.3)):
                for rank in ranks:
                    os.kill(rank, number)
                time.sleep(pause)
            (folder / "go").touch()
            log = job.communicate(timeout=left_s())[0]
            self.assertEqual(job.returncode, 0, log)
            self.assertNotIn("is lost", log)

    def test_abort(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                code, log, records = self.job("abort", rank)
                self.assertEqual(code, 6, log)
                self.assertEqual(len(records), RANKS, log)
                for record in records.values():
                    self.assertRegex(record, rf"^6 rank {rank} \(.*\): the loss is not finite")

    def test_throw(self):
        code, log, records = self.job("throw", 1)
        self.assertEqual(code, 4, log)
        self.assertIn("left the job before its end", log)
        self.assertEqual(len(records), RANKS, log)

    def test_late(self):
        code, log, records = self.job("late", 1)
        self.assertEqual(code, 4, log)
        self.assertRegex(log, r"waiting for parameters \(#12\) for \d+\.\d s: missing rank 1 \(host")
        self.assertRegex(log, r"the job ends with code 4: .*: missing rank 1 \(host \S+, pid \d+\)")
        self.assertEqual(len(records), RANKS, log)

    def test_options_that_differ(self):
        code, log, _ = self.job("differ", 2)
        self.assertEqual(code, 2, log)
        self.assertIn("[chunk bytes] the ranks of one job differ; expected 1048576 as on rank 0, "
                      "got 4096 on rank 2", log)

    def test_no_worker_left(self):
        code, log, _ = self.job("servers", 0)
        self.assertEqual(code, 2, log)
        self.assertIn("expected at least 65 ranks, got 3", log)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    separator = sys.argv.index("--")
    MPIRUN = sys.argv[separator + 1:]
    del sys.argv[separator:]
    unittest.main()
