#!/usr/bin/env python3
"""Jobs on real data: Fashion-MNIST as Debian's package has it, four workers that learn it although one of them is
killed while they train.

    fashion_mnist_test.py COHORT ROOT [-- UNITTEST-OPTION...]

Exit code 77: the data are not installed.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import events, left_s, ranks_of, run, wait_until  # noqa: E402

ROOT = None
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
TRAIN, TEST, CLASSES = 60000, 10000, 10
SAMPLES = 16000  # a quarter of an epoch
BATCH = 32
# Training takes at least SAMPLES / BATCH / workers * DELAY, on any processor: 6 s with four workers. A fast one learns
# these samples in half a second, and the worker that is to die would have ended before.
DELAY = "50ms"
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


class FashionMnist(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-fashion-mnist-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.data = cls.folder / "fashion-mnist.h5"
        run("import", "--format", "idx", "--input", IMAGES, "--output", cls.data)

    def test_the_import_is_whole(self):
        said = run("info", "--data", self.data).stdout
        for part in (f"{TRAIN}", f"{TEST}", "28", f"{CLASSES} classes"):
            self.assertIn(part, said.replace(",", ""))

    def check_a_job_that_loses_a_worker(self, workers, victim, *words):
        """Every sample is applied once, and what was learned is what model.h5 holds."""
        out = self.folder / self.id().rsplit(".", 1)[-1]
        log = out.with_suffix(".log")
        command = [ROOT / "jobs/launch.sh", "-n", workers[-1] + 1, "--interfaces", "lo", "--", "train", "--data", self.data,
                   "--out", out, *words, "--model", "smallcnn", "--batch", BATCH, "--lr", 0.03, "--threads", 1,
                   "--samples", SAMPLES, "--log-every-s", 0.2,
                   "--inject", ";".join(f"rank={rank},delay={DELAY}" for rank in workers)]
        with log.open("w") as lines, subprocess.Popen(
                list(map(str, command)), stdout=lines, stderr=lines,
                env={**os.environ, "COHORT": str(cli_support.PROGRAM)}) as launcher:
            self.addCleanup(launcher.kill)
            wait_until(lambda: (out / "metrics.jsonl").exists() and events(out, "train"), log.read_text,
                       lambda: launcher.poll() is None)
            os.kill(ranks_of(launcher)[victim], signal.SIGKILL)
            self.assertEqual(launcher.wait(timeout=left_s()), 0, log.read_text())
        (lost,), summary = events(out, "lost"), events(out, "summary")[-1]
        self.assertEqual(lost["rank"], victim)
        self.assertIn("died", lost["reason"])
        self.assertEqual((summary["samples_applied"], summary["samples_outstanding"], summary["lost"]), (SAMPLES, 0, 1))
        self.assertEqual(summary["samples_leased"], summary["samples_applied"] + summary["samples_returned"])
        # Who guesses is right in one of ten cases; what this network learns from so few samples, about 80 %, differs
        # from run to run.
        self.assertGreater(summary["test_accuracy"], 0.5)
        tested = json.loads(run("eval", "--data", self.data, "--model-file", out / "model.h5", "--threads", 1,
                                "--json").stdout)
        self.assertEqual(tested["samples"], TEST)
        self.assertAlmostEqual(tested["accuracy"], summary["test_accuracy"], places=4)
        run("report", out)
        self.assertIn(f"worker {lost['worker']} was lost", (out / "report.html").read_text(encoding="utf-8"))

    def test_a_parameter_server_and_four_workers(self):
        self.check_a_job_that_loses_a_worker(range(1, 5), 3, "--arch", "servers", "--mode", "adaptive")

    def test_a_ring_of_four_workers(self):
        self.check_a_job_that_loses_a_worker(range(4), 2, "--arch", "ring")


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(2)).resolve()
    if not IMAGES.exists():
        print(f"no {IMAGES}: jobs/install_deps.sh installs it")
        sys.exit(SKIPPED)
    cli_support.main()
