"""What the fault tests share: a small data set, jobs that are watched and disturbed from outside, and
the proof that every sample was applied exactly once."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tests/support/core")]
import cli_support  # noqa: E402
import guard  # noqa: E402


def parser(text, cases=0):
    """What the tests' command lines share; with `cases`, that many by default, each drawn by its number."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("cohort")
    made.add_argument("--folder", type=pathlib.Path)
    if cases:
        made.add_argument("--cases", type=int, default=cases)
        made.add_argument("--first", type=int, default=0)
        made.add_argument("--seed", type=int, default=1)
    return made


@contextlib.contextmanager
def work_folder(arguments):
    """--folder, or one that goes."""
    with tempfile.TemporaryDirectory(prefix="cohort-fault-") as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


RANKS = 8  # of a job; servers: one of them

LEAVE_S = 30  # for a job that is told to end, before it is killed

# A value for parameters, for eight ranks; modes whose parameter may be left out need none.
EXAMPLES = {
    "static": "static:4", "quorum": "quorum:5", "ksync": "ksync:5", "backup": "backup:2", "kbatch-sync": "kbatch-sync:5",
    "kbatch-async": "kbatch-async:4", "softsync": "softsync:2", "ssp": "ssp:3",
    "adadelay": "adadelay:1,0.05", "dcasgd": "dcasgd:0.04", "saps": "saps:2", "lgc": "lgc:2",
    "localsgd": "localsgd:4", "hier": "hier:2:4", "ring": "ring:6", "sync-switch": "sync-switch:0.3"}

# Mini-batches of ten samples that take tens of milliseconds, mostly asleep: eight ranks fit two cores.
THROTTLE = 0.02

Mode = collections.namedtuple("Mode", ("arch", "name"))


def modes(program):
    """Every mode that the help of `cohort train --mode` lists, with parameters for eight ranks."""
    text = subprocess.run([program, "options", "--markdown"], capture_output=True, text=True,
                          check=True).stdout
    row = next(line for line in text.splitlines() if line.startswith("| `--mode` |"))
    found = []
    for arch, names in re.findall(r"\b(servers|ring): ([^;|]+)", row):
        for name in names.strip().split(", "):
            base = re.match(r"[a-z+-]+", name)[0]
            if ":" in re.sub(r"\[.*\]", "", name) and base not in EXAMPLES:
                sys.exit(f"the help lists '{name}': give EXAMPLES a value for its parameter")
            found.append(Mode(arch, EXAMPLES.get(base, base)))
            if base == "ring":
                found.append(Mode(arch, base))
    return found


def make_data(program, folder):
    """An HDF5 file of 600 train and 200 test images."""
    inputs = []
    for group, count in (("train", 600), ("test", 200)):
        samples, labels = cli_support.images(count, len(inputs))
        for kind, values in (("images", samples), ("labels", labels)):
            inputs += ["--input", folder / f"{group}_{kind}.npy"]
            cli_support.np.save(inputs[-1], values)
    data = folder / "data.h5"
    subprocess.run([program, "import", *inputs, "--output", data], check=True, capture_output=True)
    return data


class JobsTest(unittest.TestCase):
    """Tests whose jobs share a folder and make_data's file, of the program that cli_support.main() was given."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-fault-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.data = make_data(cli_support.PROGRAM, cls.folder)


def throttle(servers, slow=None, share=1.0):
    """--inject for mini-batches that last, on all workers; `slow` runs at `share` of the others' speed."""
    return ";".join(f"rank={rank},cpu={THROTTLE * (share if rank == slow else 1):g}"
                    for rank in range(servers, RANKS))


def process_state(pid):
    """The letter of /proc, e.g. T for one that is stopped; None when it is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state = text.rsplit(")", 1)[1].split()[0]
    return None if state in "ZX" else state


class Job:
    """One training run under jobs/launch.sh, on this host or, with `start`, on several.

    `start`: the words up to the launcher's options, as netns_hosts.Hosts.launch() gives them."""

    def __init__(self, program, data, folder, mode, samples, launch=(), train=(), start=None,
                 ranks=RANKS, log_every_s=0.2, model="smallcnn"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.out = folder / "out"
        self.samples = samples
        self._program = str(pathlib.Path(program).resolve())
        self._mark = f"COHORT_FAULT_JOB={uuid.uuid4()}"
        self._log = folder / "log"
        start = start or [ROOT / "jobs/launch.sh", "--interfaces", "lo"]
        words = [*start, "-n", ranks, "--bind", "none", *launch, "--", "train",
                 "--data", data, "--out", self.out, "--arch", mode.arch, "--model", model,
                 "--batch", 10, "--threads", 1, "--lr", 0.005, "--samples", samples,
                 "--log-every-s", log_every_s, "--eval-every-samples", samples, "--keep-checkpoints", 3,
                 *train]
        if "--mode-schedule" not in train:
            words += ["--mode", mode.name]
        self.command = [str(word) for word in words]
        outside = {name: value for name, value in os.environ.items()
                   if not re.match("SLURM|OMPI_|PMIX_", name)}
        with self._log.open("w", encoding="utf-8") as log:
            self._launcher = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**outside, "COHORT": self._program, **dict([self._mark.split("=")])})
        self._started = time.monotonic()

    @property
    def seconds(self):
        return time.monotonic() - self._started

    def running(self):
        return self._launcher.poll() is None

    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")

    def last_lines(self, count=25):
        """The end of the log, without Open MPI's noise and the list of options."""
        lines = [line for line in self.log().splitlines()
                 if not re.search(r"PMIX ERROR|info {4}[a-z-]+ = ", line)]
        return "".join(f"    {line}\n" for line in lines[-count:])

    def ranks(self):
        """World rank -> process id, of those that live."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(path / "exe") != self._program:
                    continue
                variables = (path / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if self._mark in variables:
                rank = re.search(r"OMPI_COMM_WORLD_RANK=(\d+)", "\n".join(variables))
                if rank and process_state(path.name):
                    found[int(rank[1])] = int(path.name)
        return found

    def events(self, kind=None):
        """The records of metrics.jsonl so far; the last line may be half written."""
        records = []
        path = self.out / "metrics.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return [record for record in records if kind in (None, record["event"])]

    def wait_until(self, condition):
        """Whether it came true before the job ended."""
        try:
            return bool(guard.wait_until(condition, "", self.running))
        except AssertionError:
            return False

    def last(self, seconds):
        """Waits so long, or until the job ends."""
        end = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() > end)

    def finish(self):
        """The exit code; None when the job hangs and had to be ended."""
        try:
            return self._launcher.wait(timeout=guard.left_s(guard.CASE_S))
        except subprocess.TimeoutExpired:
            with self._log.open("a", encoding="utf-8") as log:
                states = {rank: process_state(pid) for rank, pid in sorted(self.ranks().items())}
                print(f"ended after {self.seconds:.0f} s; ranks' states: {states}", file=log)
            self.end()
            return None

    def end(self):
        for _ in range(2):
            if self.running():
                self._launcher.send_signal(signal.SIGINT)
                time.sleep(0.5)
        try:
            self._launcher.wait(timeout=LEAVE_S)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
            self._launcher.wait()
        for pid in self.ranks().values():
            os.kill(pid, signal.SIGKILL)

    def problems(self, code):
        """What is wrong with a job that should have trained all its samples; a list of sentences."""
        if code is None:
            return [f"it did not end within {self.seconds:.0f} s"]
        found = [] if code == 0 else [f"exit code {code}"]
        left = self.ranks()
        if left:
            found.append(f"ranks {sorted(left)} were left behind")
        summary = (self.events("summary") or [None])[-1]
        if summary is None:
            return [*found, "there is no summary"]
        told = (self.out / "exit_code").read_text(encoding="utf-8").split("\n")[0]
        if told != str(code):
            found.append(f"exit_code holds {told}, the launcher ended with {code}")
        return found + account_problems(summary, self.samples)


def account_problems(summary, samples):
    """Whether each sample of the budget was applied once, by the job's own books, and something was
    learned, unless the job only slept (--compute)."""
    found = []
    leased, applied, returned, outstanding = (
        summary[f"samples_{name}"] for name in ("leased", "applied", "returned", "outstanding"))
    if leased != applied + returned + outstanding:
        found.append(f"{leased} leased is not {applied} applied + {returned} returned + "
                     f"{outstanding} outstanding")
    if applied != samples:
        found.append(f"{applied} samples applied, not {samples}")
    if outstanding != 0:
        found.append(f"{outstanding} samples are outstanding at the end")
    reasons = {name: value for name, value in summary.items() if name.startswith("returned_")}
    if sum(reasons.values()) != returned:
        found.append(f"{returned} returned, but by reason {reasons}")
    slept = summary["compute"] != "network"
    if not slept and (summary["test_accuracy"] is None or summary["test_accuracy"] < 0.6):
        found.append(f"test accuracy {summary['test_accuracy']}")
    return found
