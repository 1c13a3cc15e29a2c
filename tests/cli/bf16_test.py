#!/usr/bin/env python3
"""bfloat16 on CPUs: the same bits when a run is resumed, and processors that cannot multiply it.
bf16_test.py COHORT"""

import unittest

import cli_support
from cli_support import ProgramTest, tensors

# oneDNN believes that the processor has these instructions and no more.
WITHOUT_BF16 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}


def multiplies_bf16():
    with open("/proc/cpuinfo", encoding="utf-8") as facts:
        return "avx512_bf16" in facts.read()


class Bf16(ProgramTest):

    def bits(self, *arguments, **options):
        """The parameters that a run ends with."""
        done = self.train("--samples", 200, "--overwrite", *arguments, **options)
        return done, tensors(self.out())

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


if __name__ == "__main__":
    cli_support.main()
