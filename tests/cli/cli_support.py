"""What the program tests share: a small data set and running `cohort`."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import CASE_S, left_s, wait_until  # noqa: E402,F401

PROGRAM = None
MPIRUN = []  # the command that starts ranks, where a test is given one


def main(skipped=0):
    """Runs the tests of the calling file: TEST COHORT [MPIRUN MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
    @param skipped  the exit code where a test was skipped and none failed"""
    global PROGRAM
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    PROGRAM = pathlib.Path(sys.argv[1]).resolve()
    MPIRUN[:] = sys.argv[2:end]
    result = unittest.main(argv=[sys.argv[0], *sys.argv[end + 1:]], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else skipped if result.skipped else 0)


def call(command, code=0, environment=None, **options):
    """Runs a command to its end and checks its exit code."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=left_s(),
                          check=False, env={**os.environ, "OMP_WAIT_POLICY": "passive", **(environment or {})},
                          **options)
    assert done.returncode == code, (
        f"exit code {done.returncode}, expected {code}: {command}\n{done.stdout}{done.stderr}")
    return done


def run(*arguments, **options):
    """Runs `cohort`."""
    return call([PROGRAM, *arguments], **options)


def run_ranks(ranks, *arguments, **options):
    """Runs `cohort` on many ranks."""
    return call([*MPIRUN, "-n", ranks, PROGRAM, *arguments], **options)


def images(count, seed):
    """Grey 12x12 images in four classes: one quarter is brighter."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 4, count).astype(np.uint8)
    pixels = draw.integers(0, 150, (count, 1, 12, 12))
    for image, label in zip(pixels, labels):
        row, column = divmod(int(label), 2)
        image[0, 6 * row:6 * row + 6, 6 * column:6 * column + 6] += 100
    return pixels.astype(np.uint8), labels


def events(folder, kind=None):
    """The records of a run's metrics.jsonl."""
    with open(pathlib.Path(folder) / "metrics.jsonl", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return [record for record in records if kind in (None, record["event"])]


def tensors(folder):
    """Name -> bytes of everything that model.h5 holds, but the description of the network."""
    found = {}
    with h5py.File(pathlib.Path(folder) / "model.h5") as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()})
                        if isinstance(item, h5py.Dataset) else None)
    del found["network"]
    return found


def make_data(folder):
    """A data set of images() in a new file of the folder."""
    inputs = []
    for group, count in (("train", 600), ("test", 200)):
        samples, labels = images(count, len(inputs))
        for kind, values in (("images", samples), ("labels", labels)):
            inputs += ["--input", folder / f"{group}_{kind}.npy"]
            np.save(inputs[-1], values)
    run("import", *inputs, "--output", folder / "data.h5")
    return folder / "data.h5"


def ranks_of(launcher):
    """World rank -> process id of cohort below jobs/launch.sh, with mpirun's children in sessions of their own."""
    children, found = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(path)
    below = children.get(launcher.pid, [])
    while below:
        path = below.pop()
        below += children.get(int(path.name), [])
        try:
            if os.readlink(path / "exe") == str(PROGRAM):
                variables = (path / "environ").read_bytes().decode(errors="replace")
                found[int(re.search(r"\bOMPI_COMM_WORLD_RANK=(\d+)", variables)[1])] = int(path.name)
        except OSError:
            continue  # it has ended
    return found


def worked_s(process):
    """Processor seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ProgramTest(unittest.TestCase):
    """A folder with a data set, imported once per test class."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="cohort-cli-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.data = make_data(cls.folder)

    def out(self):
        """A folder name that no other test uses."""
        return self.folder / self.id().rsplit(".", 1)[-1]

    def train(self, *arguments, **options):
        return run("train", "--data", self.data, "--out", self.out(), "--model", "smallcnn",
                   "--batch", 20, "--threads", 1, "--deterministic", *arguments, **options)
