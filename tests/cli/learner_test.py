#!/usr/bin/env python3
"""The learner of virtual runs ends with the parameters of ranks that train, bit for bit.

    learner_test.py COHORT LEARNER_REFERENCE MPIRUN [MPIRUN-OPTION...]
"""

import sys

import numpy as np

import cli_support
from cli_support import ProgramTest, call, run_ranks, tensors

REFERENCE = None


class LearnerAsManyRanks(ProgramTest):

    def check_same(self, job, *mode, workers=3, local_steps=0):
        ranks = self.out()
        run_ranks(workers + 1, "train", "--data", self.data, "--out", ranks, "--threads", 1,
                  "--deterministic", "--arch", "servers", "--checkpoint-every-s", 0, *mode, *job)
        expected = tensors(ranks)
        for threads in (1, 2):
            alone = self.folder / f"{ranks.name}-{threads}"
            call([REFERENCE, alone, workers, "--data", self.data, "--threads", threads,
                  "--local-steps", local_steps, *job])
            found = tensors(alone)
            self.assertEqual(found.keys(), expected.keys())
            for name, values in found.items():
                left, right = (np.frombuffer(x, np.float32) for x in (values, expected[name]))
                self.assertEqual(values, expected[name],
                                 f"{name}: {np.sum(left != right)} of {left.size} differ")

    def test_synchronous(self):
        self.check_same(("--model", "smallcnn", "--batch", 20, "--lr", 0.05, "--momentum", 0.9,
                         "--weight-decay", 0.0005, "--augment", "pad-crop:2,flip", "--seed", 5,
                         "--samples", 1300))

    def test_batch_statistics_and_adamw(self):
        self.check_same(("--model", "resnet20", "--batch", 16, "--lr", 0.003, "--optimizer",
                         "adamw", "--samples", 400))

    def test_local_steps(self):
        self.check_same(("--model", "smallcnn", "--batch", 20, "--lr", 0.05, "--momentum", 0.9,
                         "--samples", 1200), "--mode", "localsgd:4", local_steps=4)


if __name__ == "__main__":
    REFERENCE = sys.argv.pop(2)
    cli_support.main()
