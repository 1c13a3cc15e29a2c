#!/usr/bin/env python3
"""PyTorch's frameworks on the backend "cohort".   frameworks_test.py MPIRUN MPIRUN-OPTION... [-- UNITTEST-OPTION...]

The package is found by PYTHONPATH. What is not installed is skipped: pip install lightning accelerate transformers
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FRAMEWORKS = ("lightning", "accelerate", "transformers")
if not any(map(importlib.util.find_spec, FRAMEWORKS)):
    print("skipped: none of", *FRAMEWORKS, "is installed")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s  # noqa: E402

MPIRUN = []
JOB = pathlib.Path(__file__).with_name("frameworks_job.py")
RANKS = 2


class Frameworks(unittest.TestCase):
    """Each equals one process that computes on the same samples in float64."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cohort-frameworks-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, framework):
        """What was printed. Nothing is found by mpi4py, which may be of another MPI."""
        if importlib.util.find_spec(framework) is None:
            self.skipTest(f"{framework} is not installed")
        absent = self.folder / "absent/mpi4py"
        absent.mkdir(parents=True)
        (absent / "__init__.py").write_text("raise ImportError('as if it were not installed')\n")
        path = f"{absent.parent}:{os.environ.get('PYTHONPATH', '')}"
        done = subprocess.run(
            [*MPIRUN, "-n", str(RANKS), sys.executable, JOB, framework, self.folder], capture_output=True,
            text=True, check=False, timeout=left_s(),
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(RANKS):
            name, ranks, apart = json.loads((self.folder / f"{rank}.json").read_text())
            self.assertEqual([name, ranks], ["cohort", RANKS])
            self.assertLess(apart, 1e-6)
        return done.stderr

    def test_lightning(self):
        """Each process draws a port of its own."""
        self.assertRegex(self.train("lightning"), r"MASTER_PORT are 127\.0\.0\.1:\d+ on rank 0, 127\.0\.0\.1:\d+ on")

    def test_accelerate(self):
        self.train("accelerate")

    def test_transformers(self):
        self.train("transformers")


if __name__ == "__main__":
    END = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    MPIRUN[:] = sys.argv[1:END]
    unittest.main(argv=[sys.argv[0], *sys.argv[END + 1:]])
