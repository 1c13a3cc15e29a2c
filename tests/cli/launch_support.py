"""jobs/launch.sh run by a test, with a program in place of cohort that does what it is told."""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s, wait_until  # noqa: E402

OPEN_MPI_5 = shutil.which("prte_info") is not None

# Answers --dump-config; otherwise runs $SCRIPT with helpers for what a training run does.
PROGRAM = r'''#!/usr/bin/env python3
import os, pathlib, signal, sys, time
if "--wrong" in sys.argv:
    sys.exit("wrong option") if "--dump-config" not in sys.argv else sys.exit(2)
out = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else "nowhere"
if "--dump-config" in sys.argv:
    threads = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else 0
    print(f'data = "x"\nout = "{out}"\nthreads = {threads}\nlost-after-s = 2.5')
    sys.exit(0)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
folder = pathlib.Path(os.environ["TEST_FOLDER"])
calls = folder / f"calls.{rank}"
with calls.open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\n")
call = len(calls.read_text().splitlines())

def leave(code, reason="because"):
    if rank == 0:
        pathlib.Path(out).mkdir(exist_ok=True)
        path = pathlib.Path(out, "exit_code")
        path.with_suffix(".new").write_text(f"{code}\n{reason}\n")
        path.with_suffix(".new").rename(path)
    sys.exit(code)

def lose_rank_1():
    # Returns on the other rank, once rank 1 has died.
    pid = folder / "dying"
    if rank == 1:
        pid.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        try:
            os.kill(int(pid.read_text()), 0)
        except (FileNotFoundError, ValueError):
            pass
        except ProcessLookupError:
            pid.unlink()
            return
        time.sleep(0.05)

def wait_for_stop(code=75):
    signal.signal(signal.SIGUSR1, lambda *_: leave(code))
    new = folder / f"new.{rank}"
    new.write_text(str(os.getpid()))
    new.rename(folder / f"ready.{rank}")
    while True:
        time.sleep(0.05)

exec(os.environ["SCRIPT"])
'''


def running(pid):
    """Whether the process exists and is not one that only waits to be collected."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"


class LaunchTest(unittest.TestCase):
    root = None  # of the tree

    @classmethod
    def setUpClass(cls):
        # A launcher that is started in a terminal has these, tests that run in the background of a script have not.
        for number in (signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort launch ")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.out = self.folder / "a run"
        self.program = self.folder / "program"
        self.program.write_text(PROGRAM)
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def command(self, job, options):
        return [str(self.root / "jobs/launch.sh"), "-n", "2", "--interfaces", "lo",
                *map(str, options), "--", *map(str, job)]

    def environment(self, script, more=None):
        outside = {name: value for name, value in os.environ.items()
                   if not re.match("SLURM|OMPI_|PMIX_|OMP_|OPENBLAS_", name)}
        return {**outside, "COHORT": str(self.program), "SCRIPT": script,
                "TEST_FOLDER": str(self.folder), **(more or {})}

    def launch(self, script, *options, code=0, job=None, environment=None):
        """Runs the launcher to its end and checks the exit code."""
        done = subprocess.run(
            self.command(job or self.train(), options), capture_output=True, text=True,
            timeout=left_s(), check=False, env=self.environment(script, environment))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def train(self, *more):
        return ["train", "--out", self.out, *more]

    def start(self, script, environment=None, job=None):
        """Starts the launcher as a terminal would; returns it once both ranks wait for a stop."""
        self.log = self.folder / "messages"
        with self.log.open("w", encoding="utf-8") as log:
            launcher = subprocess.Popen(
                self.command(job or self.train(), ()), stderr=log, start_new_session=True,
                env=self.environment(script, environment))
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.kill)
        wait_until(lambda: all((self.folder / f"ready.{rank}").exists() for rank in (0, 1)),
                   "both ranks wait")
        return launcher

    def finish(self, launcher, code):
        """Waits for the launcher's end and checks its exit code; returns its messages."""
        launcher.wait(timeout=left_s())
        messages = self.log.read_text(encoding="utf-8")
        self.assertEqual(launcher.returncode, code, messages)
        return messages

    def rank_processes(self):
        return [int((self.folder / f"ready.{rank}").read_text()) for rank in (0, 1)]

    def scratch(self):
        folder = self.folder / "scratch"
        folder.mkdir()
        return folder

    def left_in_scratch(self):
        return [path for path in (self.folder / "scratch").iterdir()
                if path.name.startswith("cohort-launch")]

    def calls(self, rank=0):
        return (self.folder / f"calls.{rank}").read_text().splitlines()

    def check_gone(self):
        wait_until(lambda: not any(map(running, self.rank_processes())), "ranks are gone")
