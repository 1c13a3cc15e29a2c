"""Workers that die or freeze: the job goes on without them, and with them when they come back.

As a script: comm_loss_test.py PROGRAM --series N [WORK or TRANSPORT ...] -- mpirun ... kills N times at
random times in every kind of work and over every transport, or in those that are named, and counts
what became of the survivors.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import CASE_S, left_s, wait_until  # noqa: E402

PROGRAM = None
MPIRUN = None
RANKS = 4
RECOVERY = ("--enable-recovery",)
SHARED = ("--mca", "btl", "self,vader,tcp")
TCP = ("--mca", "btl", "self,tcp")
WORK = ("idle", "transfers", "making", "ring", "halves", "leaders", "pairs", "mpi",
        "making-mpi")


def left_over(folder):
    """Processes of a job, found by the folder on their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and folder.encode() in (entry / "cmdline").read_bytes():
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
    return [pid for pid in found if pid != os.getpid()]


def end(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Job:
    """One run. `files` are what the ranks left."""

    def __init__(self, work, how, victim, delay_ms, *options, servers=0, thaw=False):
        self.files = {}
        with tempfile.TemporaryDirectory(prefix="cohort-loss-") as name:
            folder = pathlib.Path(name)
            job = subprocess.Popen(
                [*MPIRUN, *RECOVERY, *options, "-n", str(RANKS), PROGRAM, work, how, str(victim),
                 str(delay_ms), name, str(servers)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                if thaw:
                    self.thaw(folder, victim)
                self.log = job.communicate(timeout=left_s(CASE_S))[0]
                self.code = job.returncode
            except subprocess.TimeoutExpired:
                self.code = None
                self.left = left_over(name)
                for pid in self.left:
                    end(pid, signal.SIGABRT)
                job.kill()
                self.log = job.communicate()[0]
            self.left = left_over(name)
            for pid in self.left:
                end(pid, signal.SIGKILL)
            for path in folder.iterdir():
                self.files[path.name] = path.read_text()

    @staticmethod
    def thaw(folder, victim):
        wait_until((folder / "silent").exists, "the victim is silent")
        time.sleep(0.5)
        os.kill(int((folder / f"pid.{victim}").read_text()), signal.SIGCONT)

    def done(self):
        return sorted(int(name[5:]) for name in self.files if name.startswith("done."))

    def went_on(self, victim):
        """Whether all survivors did, or the victim died before it could be lost."""
        return self.code == 0 and not self.left and set(self.done()) >= set(range(RANKS)) - {victim}


class Losses(unittest.TestCase):

    def check(self, job, done):
        self.assertEqual(job.code, 0, job.log)
        self.assertEqual(job.left, [], job.log)
        self.assertEqual(job.done(), done, job.log)
        self.assertFalse([name for name in job.files if name.startswith("record.")], job.log)

    def test_kill(self):
        for work in WORK:
            victim = random.randrange(1, RANKS)
            delay_ms = random.randrange(1, 400)
            btl = random.choice((SHARED, TCP))
            with self.subTest(work=work, victim=victim, delay_ms=delay_ms, btl=btl):
                job = Job(work, "kill", victim, delay_ms, *btl)
                self.check(job, [rank for rank in range(RANKS) if rank != victim])
                self.assertEqual(job.files["silent"], f"{victim} dead\n")

    def test_freeze_and_thaw(self):
        for work, btl in (("idle", SHARED), ("transfers", TCP), ("transfers", SHARED),
                          ("halves", SHARED), ("leaders", TCP), ("mpi", SHARED)):
            victim = random.randrange(1, RANKS)
            with self.subTest(work=work, victim=victim, btl=btl):
                job = Job(work, "freeze", victim, 150, *btl, thaw=True)
                self.check(job, list(range(RANKS)))
                self.assertEqual(job.files["silent"], f"{victim} alive\n")
                self.assertEqual(job.files["returned"], f"{victim} alive\n")

    def test_kill_after_the_watcher_has_gone(self):
        victim = random.randrange(1, RANKS)
        with self.subTest(victim=victim):
            job = Job("ended", "kill", victim, 100, *SHARED)
            self.check(job, [rank for rank in range(RANKS) if rank != victim])
            self.assertNotIn("silent", job.files)

    def test_a_lost_server_ends_the_job(self):
        for victim, how in ((0, "kill"), (1, "kill"), (1, "freeze")):
            with self.subTest(victim=victim, how=how):
                job = Job("transfers", how, victim, 100, servers=2)
                self.assertEqual(job.done(), [], job.log)
                self.assertEqual(job.left, [], job.log)
                records = [text for name, text in job.files.items() if name.startswith("record.")]
                self.assertGreaterEqual(len(records), RANKS - 1, job.log)
                for record in records:
                    self.assertRegex(record, rf"^4 .*rank {victim} \(.*(has died|is lost)")


TRANSPORTS = {"shared": SHARED, "tcp": TCP, "tcp-0x201": (*TCP, "--mca", "btl_tcp_flags", "0x201")}


def series(count, works, transports):
    """Kills at random times; prints a line per kind of work and transport."""
    bad = 0
    for name in transports:
        btl = TRANSPORTS[name]
        for work in works:
            outcomes = []
            for _ in range(count):
                victim = random.randrange(1, RANKS)
                job = Job(work, "kill", victim, random.randrange(1, 500), *btl)
                good = job.went_on(victim)
                outcomes.append(good)
                if not good:
                    bad += 1
                    path = pathlib.Path(tempfile.gettempdir()) / f"loss-{work}-{bad}.log"
                    path.write_text(f"{btl} victim {victim} code {job.code} left {job.left} "
                                    f"done {job.done()} {job.files}\n{job.log}")
                    print(f"  {name} {work}: code {job.code}, done {job.done()}, victim {victim}: "
                          f"{path}", flush=True)
            print(f"{name:10} {work:10} {sum(outcomes)}/{count} went on", flush=True)
    return 1 if bad > count * len(works) * len(transports) // 20 else 0


if __name__ == "__main__":
    separator = sys.argv.index("--")
    PROGRAM = sys.argv[1]
    MPIRUN = sys.argv[separator + 1:]
    arguments = sys.argv[2:separator]
    if arguments[:1] == ["--series"]:
        chosen = arguments[2:]
        sys.exit(series(int(arguments[1]), [word for word in chosen if word in WORK] or WORK,
                        [word for word in chosen if word in TRANSPORTS] or TRANSPORTS))
    unittest.main(argv=[sys.argv[0], *arguments])
