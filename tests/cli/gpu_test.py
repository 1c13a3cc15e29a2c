#!/usr/bin/env python3
"""Jobs that ask for GPUs where there are none, and devices that are too small.
gpu_test.py COHORT"""

import json
import resource

import numpy as np

import cli_support
from cli_support import ProgramTest, events, images, run


def cuda_facts():
    """GPUs that the program sees here, and what it says of them."""
    line = next(line for line in run("info").stdout.splitlines() if line.startswith("CUDA:"))
    count, detail = line.split(", ", 1)[1].split(": ", 1)
    return int(count.split()[0]), detail


def gpus():
    return cuda_facts()[0]


class WithoutGpu(ProgramTest):

    def setUp(self):
        if gpus() > 0:
            self.skipTest("there is a GPU")

    def test_what_needs_one_says_so(self):
        for arguments in (["--device", "cuda"], ["--all-reduce", "nccl"]):
            done = run("train", "--data", self.data, "--out", self.out(), "--model", "smallcnn",
                       "--batch", 20, "--threads", 1, *arguments, code=5)
            self.assertIn(arguments[-1], done.stderr)
        refusal = self.train("--precision", "f16", code=2).stderr
        self.assertIn("f16", refusal)
        self.assertIn(cuda_facts()[1], refusal)  # why auto is the CPU
        self.assertFalse(self.out().exists())
        run("bench", "engine", "--device", "cuda", code=5)
        run("bench", "exchange", "--algorithm", "nccl", "--bytes", 4000, code=5)

    def test_what_means_nothing_on_the_cpu_is_a_usage_error(self):
        for arguments in (["--precision", "tf32"], ["--all-reduce", "nccl"]):
            self.assertIn(arguments[0],
                          self.train("--device", "cpu", *arguments, code=2).stderr)
        self.assertIn("--server-device", self.train("--server-device", "cuda", code=2).stderr)

    def test_nccl_promises_no_bits(self):
        refusal = self.train("--all-reduce", "nccl", code=2).stderr
        self.assertIn("--deterministic", refusal)
        self.assertFalse(self.out().exists())

    def test_auto_is_the_cpu(self):
        done = self.train("--samples", 40)
        self.assertNotIn("device =", done.stderr)  # only what was given is listed
        self.assertIn("device cpu: 1 thread", done.stderr)
        self.assertIn("precision f32 on CPUs", done.stderr)
        done = run("eval", "--data", self.data, "--model-file", self.out() / "model.h5", "--json")
        self.assertEqual(json.loads(done.stdout)["samples"], 200)
        bench = run("bench", "engine", "--model", "lenet", "--batch", 4, "--steps", 1, "--json")
        bench = json.loads(bench.stdout)
        self.assertEqual((bench["device"], bench["precision"]), ("cpu", "f32"))


class ShortMemory(ProgramTest):
    """A batch whose activations do not fit: here for want of address space."""

    SAMPLES = 8000
    LIMIT = 1200 << 20  # bytes; the program itself takes half

    def test_the_run_ends_in_order_and_can_go_on_elsewhere(self):
        inputs = []
        for group, count in (("train", self.SAMPLES), ("test", 50)):
            samples, labels = images(count, len(inputs))
            for kind, values in (("images", samples), ("labels", labels)):
                inputs += ["--input", self.folder / f"many_{group}_{kind}.npy"]
                np.save(inputs[-1], values)
        data = self.folder / "many.h5"
        run("import", *inputs, "--output", data)
        job = ("train", "--data", data, "--out", self.out(), "--model", "resnet20", "--device",
               "cpu", "--threads", 1, "--batch", self.SAMPLES, "--samples", self.SAMPLES)
        short = run(*job, code=5, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (self.LIMIT, self.LIMIT)))
        self.assertIn("out of memory", short.stderr)
        self.assertEqual(events(self.out())[-1]["exit_code"], 5)
        self.assertEqual(len(events(self.out(), "checkpoint")), 1)
        done = run(*job, "--resume")
        self.assertIn("1 updates", done.stderr)


if __name__ == "__main__":
    cli_support.main()
