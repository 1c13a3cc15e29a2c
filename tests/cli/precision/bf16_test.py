#!/usr/bin/env python3
"""bfloat16 on CPUs: the same bits when a run is resumed, ranks against one process, and processors
that cannot multiply it. bf16_test.py COHORT MPIRUN [MPIRUN-OPTION...]"""

import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import cli_support
from cli_support import ProgramTest, run, run_ranks, tensors

# oneDNN believes that the processor has these instructions and no more.
WITHOUT_BF16 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}


def has(instructions):
    with open("/proc/cpuinfo", encoding="utf-8") as facts:
        return instructions in facts.read()


def multiplies_bf16():
    return has("avx512_bf16")


class Bf16(ProgramTest):

    def bits(self, *arguments, **options):
        """The parameters that a run ends with."""
        done = self.train("--samples", 200, "--overwrite", *arguments, **options)
        return done, tensors(self.out())

    def test_a_level_that_onednn_passes_over_is_said_once(self):
        for level, words in (("AVX9", "not a level that is known here"),
                             ("AVX512_CORE_AMX", "does not have it")):
            done, _ = self.bits(environment={"ONEDNN_MAX_CPU_ISA": level})
            lines = [line for line in done.stderr.splitlines() if "ONEDNN_MAX_CPU_ISA" in line]
            if level == "AVX512_CORE_AMX" and has("amx_bf16"):
                self.assertEqual(lines, [])
                continue
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertIn(words, lines[0])

    def test_other_processors_compute_in_f32_and_say_so(self):
        _, f32 = self.bits(environment=WITHOUT_BF16)
        done, fallen_back = self.bits("--precision", "bf16", environment=WITHOUT_BF16)
        lines = [line for line in done.stderr.splitlines() if "AVX-512 BF16" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn("computes in f32", lines[0])
        self.assertEqual(fallen_back, f32)

    @unittest.skipUnless(multiplies_bf16(), "no processor that multiplies bfloat16")
    def test_bits_repeat_and_differ_from_those_of_f32(self):
        _, first = self.bits("--precision", "bf16")
        _, again = self.bits("--precision", "bf16")
        _, f32 = self.bits()
        self.assertEqual(first, again)
        self.assertNotEqual(first, f32)

    @unittest.skipUnless(multiplies_bf16(), "no processor that multiplies bfloat16")
    def test_a_resumed_run_ends_with_the_same_bits(self):
        _, whole = self.bits("--precision", "bf16")
        self.train("--samples", 100, "--overwrite", "--precision", "bf16")
        self.train("--samples", 200, "--resume", "--precision", "bf16")
        self.assertEqual(tensors(self.out()), whole)

    @unittest.skipUnless(multiplies_bf16(), "no processor that multiplies bfloat16")
    def test_another_kind_of_processor_is_refused_where_bits_are_promised(self):
        self.train("--samples", 100, "--precision", "bf16")
        job = ("--samples", 200, "--resume", "--precision", "bf16")
        refusal = self.train(*job, environment=WITHOUT_BF16, code=3).stderr
        self.assertIn("another kind of processor", refusal)
        self.assertIn("step-000000000100.h5", refusal)
        self.train(*job)  # nothing was put aside

    @unittest.skipUnless(multiplies_bf16(), "no processor that multiplies bfloat16")
    def test_ranks_learn_what_one_process_learns(self):
        """The sums of a batch's gradients are in single precision, wherever its parts were computed."""
        job = ("train", "--data", self.data, "--model", "lenet", "--samples", 400, "--threads", 1,
               "--deterministic", "--precision", "bf16", "--lr", 0.02)
        run(*job, "--batch", 40, "--out", self.out() / "one")
        run_ranks(2, *job, "--batch", 20, "--mode", "ssgd", "--out", self.out() / "two")
        one, two = (self.parameters(self.out() / name) for name in ("one", "two"))
        self.assertLess(np.linalg.norm(one - two), 0.01 * np.linalg.norm(one))

    @staticmethod
    def parameters(folder):
        return np.concatenate([np.frombuffer(values, np.float32)
                               for name, values in sorted(tensors(folder).items())
                               if name.startswith("parameters")])


if __name__ == "__main__":
    cli_support.main()
