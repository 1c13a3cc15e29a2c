#!/usr/bin/env python3
"""Shards of servers that move while a job runs, on real ranks.

shards_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""


import h5py
import numpy as np

import cli_support
from cli_support import ProgramTest
from modes_test import Job

JOB = ("--arch", "servers", "--servers", 2, "--mode", "ssgd", "--optimizer", "adamw", "--deterministic",
       "--samples", 8000)


def arrays(file):
    found = {}
    with h5py.File(file) as opened:
        opened.visititems(lambda name, node: found.update({name: node[()]})
                          if isinstance(node, h5py.Dataset) else None)
    return found


class Shards(ProgramTest):

    def test_a_move_changes_no_bit_and_a_checkpoint_after_it_goes_on(self):
        job = Job(self, 4, *JOB, "--inject", "rank=2,delay=40ms")
        job.wait((job.out / "ctl" / "run").exists, "it listens")
        for number, (words, shares) in enumerate((("1:1000000", "0.000:1.000"), ("capacity", "0.500:0.500"),
                                                  ("1:3", "0.250:0.750")), start=1):
            self.assertIn(shares + " follow at the next fence", job.ctl("servers", words).stdout)
            text = ""
            while f"layout {number}" not in text:
                text = job.ctl("servers").stdout
        self.assertIn("server 1 (rank 1 (host", text)
        self.assertIn(": 0.7", text)
        self.assertIn("2 numbers above 0", job.ctl("servers", "1:2:3", code=2).stderr)
        job.ctl("stop")
        stopped, _, _ = job.ends("75")
        self.assertLess(stopped["samples_applied"], 8000)
        summary, _, _ = Job(self, 4, *JOB, "--resume").ends()
        self.assertEqual(summary["samples_applied"], 8000)
        moved = arrays(job.out / "model.h5")
        Job(self, 4, *JOB, "--overwrite").ends()
        plain = arrays(job.out / "model.h5")
        self.assertEqual(moved.keys(), plain.keys())
        for name, values in plain.items():
            np.testing.assert_array_equal(moved[name], values, err_msg=name)


if __name__ == "__main__":
    cli_support.main()
