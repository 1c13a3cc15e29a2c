#!/usr/bin/env python3
"""The wheel of the Python package.   wheel_test.py [--whole MPIRUN MPIRUN-OPTION...]

Without --whole: its metadata. With it: the wheel is built to its end (a quarter of an hour and more), installed in a
fresh environment and used. The packages of tests/tools/install_peers.sh are needed; else the test is skipped (77).
"""

import email
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest

if importlib.util.find_spec("scikit_build_core") is None:
    print("skipped: there is no scikit-build-core")
    sys.exit(77)

from scikit_build_core import build  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPIRUN = []
SIMULATION = 'cohort.simulate(no_train=True, time_as="resnet50", samples=20000, mode="adaptive").summary["updates"]'
JOB = """
import cohort, torch
with cohort.join(arch="servers", servers=1, mode="ssgd", out="out", train_samples=64, samples=256, batch=8) as job:
    net = cohort.torch.attach(torch.nn.Linear(2, 2), job, cohort.SGD())
    for lease in job:
        loss = net(torch.ones(len(lease), 2)).square().mean()
        loss.backward()
        lease.done(loss)
if job.rank == 0:
    print("samples", job.summary["samples_applied"])
"""
BACKEND = """
import torch, torch.distributed as dist, cohort.distributed
dist.init_process_group("cohort")
x = torch.ones(5)
dist.all_reduce(x)
print("sum", int(x[0]))
"""


class Metadata(unittest.TestCase):

    def test_name_version_and_needs(self):
        with tempfile.TemporaryDirectory(prefix="cohort-wheel-") as folder:
            here = os.getcwd()
            os.chdir(ROOT)
            try:
                info = build.prepare_metadata_for_build_wheel(folder)
            finally:
                os.chdir(here)
            info = pathlib.Path(folder) / info
            metadata = email.message_from_string((info / "METADATA").read_text(encoding="utf-8"))
            scripts = (info / "entry_points.txt").read_text(encoding="utf-8")
        version = re.search(r"project\(cohort VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual((metadata["Name"], metadata["Version"]), ("cohort", version))
        self.assertIn("numpy", metadata.get_all("Requires-Dist"))
        self.assertIn("cohort = cohort.__main__:main", scripts.replace("=", " = ").replace("  ", " "))


class Whole(unittest.TestCase):

    def run_it(self, *words, **options):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
        self.assertEqual(done.returncode, 0, done.stdout[-5000:] + done.stderr[-5000:])
        return done.stdout

    def test_built_installed_and_used(self):
        if not MPIRUN:
            self.skipTest("only with --whole")
        with tempfile.TemporaryDirectory(prefix="cohort-wheel-") as name:
            folder = pathlib.Path(name)
            self.run_it(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder,
                        ROOT, cwd=folder)
            wheel, = folder.glob("cohort-*.whl")
            self.run_it(sys.executable, "-m", "venv", folder / "fresh")
            python = folder / "fresh/bin/python3"
            self.run_it(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel)
            places = [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("-packages"))]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}  # numpy and PyTorch

            def used(*words):
                return self.run_it(*words, cwd=folder, env=environment)
            self.assertGreater(int(used(python, "-c", f"import cohort; print({SIMULATION})")), 0)
            self.assertIn("train", used(folder / "fresh/bin/cohort", "--help"))
            if importlib.util.find_spec("torch") is None:
                return
            self.assertIn("samples 256", used(*MPIRUN, "-n", 3, python, "-c", JOB))
            self.assertIn("sum 3", used(*MPIRUN, "-n", 3, python, "-c", BACKEND))


if __name__ == "__main__":
    if "--whole" in sys.argv:
        BEGIN = sys.argv.index("--whole")
        MPIRUN[:] = sys.argv[BEGIN + 1:]
        del sys.argv[BEGIN:]
    unittest.main()
