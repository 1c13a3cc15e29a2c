"""What the tests of PyTorch modules share: jobs on ranks (train_job.py), and scripts.

The package is found by PYTHONPATH. Without PyTorch a test is skipped (exit code 77).
"""

import importlib.util
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

for needed in ("torch", "h5py"):
    if importlib.util.find_spec(needed) is None:
        print(f"skipped: there is no {needed}")
        sys.exit(77)

import cohort.torch  # noqa: E402,F401

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s, wait_until  # noqa: E402

MPIRUN = []
FORKED = multiprocessing.get_context("forkserver")
JOB = pathlib.Path(__file__).with_name("train_job.py")
LAUNCH = pathlib.Path(__file__).parents[2] / "jobs/launch.sh"
SERVERS = {"arch": "servers", "servers": 1}
# Lines of scripts.
ATTACH = "net = cohort.torch.attach(torch.nn.Linear(2, 2), job, cohort.SGD())"
LOOP = """for lease in job:
        loss = net(torch.ones(len(lease), 2)).square().mean()
        loss.backward()
        lease.done(loss)"""


def execute(code, log):
    """In a process of its own: the code as a program, with what it prints in a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    exec(compile(code, "script", "exec"), {"__name__": "__main__"})


def run_forked(code, log):
    """As subprocess.run, from a process that has imported PyTorch already."""
    process = FORKED.Process(target=execute, args=(code, log))
    process.start()
    process.join(left_s())
    if process.exitcode is None:
        process.kill()
    return subprocess.CompletedProcess(code, process.exitcode, "", log.read_text(encoding="utf-8"))


class TorchTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cohort-torch-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = str(self.folder / "out")

    def command(self, ranks, options, recovery):
        start = [*MPIRUN, *(["--enable-recovery"] if recovery else []), "-n", str(ranks)]
        everything = {"out": self.out, "batch": 8, "notes": str(self.folder), **options}
        return [*(start if ranks > 1 else []), sys.executable, JOB, json.dumps(everything)]

    def run_job(self, ranks, code=0, recovery=False, **options):
        """Rank 0's summary, and what was logged."""
        done = subprocess.run(self.command(ranks, options, recovery), capture_output=True, text=True,
                              check=False, timeout=left_s(), env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        notes = self.folder / "0.json"
        summary = json.loads(notes.read_text())["summary"] if notes.exists() else {}
        return summary, done.stderr

    def stop_job(self, ranks, options):
        """Starts a job and asks it to stop while it trains."""
        process = subprocess.Popen(self.command(ranks, options, False), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.wait_for_event("train")
        process.send_signal(signal.SIGUSR1)
        log = process.communicate(timeout=left_s())[1]
        self.assertEqual(process.returncode, 75, log)

    def run_script(self, *lines, ranks=1, after="", **options):
        """Lines of the job's body, behind `with ... as job`, and one behind the job."""
        options = {"train_samples": 64, "batch": 32, "out": self.out, "threads": 1, **options}
        code = "\n    ".join(["import os, sys, cohort, torch", f"out = {self.out!r}",
                              f"with cohort.join(**{options!r}) as job:", *lines])
        code = code.replace("\n    out =", "\nout =").replace("\n    with", "\nwith") + "\n" + after
        if ranks == 1:
            return run_forked(code, self.folder / "log")
        return subprocess.run([*MPIRUN, "-n", str(ranks), sys.executable, "-c", code], capture_output=True,
                              text=True, check=False, timeout=left_s())

    def wait_for_event(self, name):
        metrics = pathlib.Path(self.out) / "metrics.jsonl"
        wait_until(lambda: metrics.exists() and f'"event":"{name}"' in metrics.read_text(), name)

    def leases(self, rank):
        return json.loads((self.folder / f"{rank}.json").read_text())["leases"]


def main():
    """Runs the tests of the calling file: TEST COHORT MPIRUN MPIRUN-OPTION... [-- UNITTEST-OPTION...]"""
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    MPIRUN[:] = sys.argv[2:end]
    FORKED.set_forkserver_preload(["cohort.torch", "h5py"])  # found by PYTHONPATH
    unittest.main(argv=[sys.argv[0], *sys.argv[end + 1:]])
