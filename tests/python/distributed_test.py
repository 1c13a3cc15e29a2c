#!/usr/bin/env python3
"""The backend "cohort" of torch.distributed.   distributed_test.py MPIRUN MPIRUN-OPTION... [-- UNITTEST-OPTION...]

The package is found by PYTHONPATH. Without PyTorch the test is skipped (exit code 77).
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

if importlib.util.find_spec("torch") is None:
    print("skipped: there is no PyTorch")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s  # noqa: E402

MPIRUN = []
JOB = pathlib.Path(__file__).with_name("distributed_job.py")


def run_job(case, ranks, recovery=False):
    """(what each rank has noted, by rank; exit code; what was printed)"""
    with tempfile.TemporaryDirectory(prefix="cohort-distributed-") as name:
        folder = pathlib.Path(name)
        start = [*MPIRUN, *(["--enable-recovery"] if recovery else []), "-n", str(ranks)]
        done = subprocess.run([*start, sys.executable, JOB, case, folder], capture_output=True, text=True,
                              check=False, timeout=left_s(), env={**os.environ, "OMP_NUM_THREADS": "1"})
        files = [folder / f"{rank}.json" for rank in range(ranks)]
        notes = [json.loads(file.read_text()) if file.exists() else None for file in files]
    return notes, done.returncode, done.stdout + done.stderr


class Healthy(unittest.TestCase):
    """Three ranks."""

    @classmethod
    def setUpClass(cls):
        cls.notes, cls.code, cls.log = run_job("healthy", 3)

    def notes_of(self, case):
        self.assertEqual(self.code, 0, self.log)
        return [notes[case] for notes in self.notes]

    def test_collectives_give_what_gloo_gives(self):
        self.assertEqual(self.notes_of("collectives"), [[], [], []])

    def test_ddp_equals_one_process(self):
        for worst in self.notes_of("ddp"):
            self.assertLess(worst, 1e-6)

    def test_what_device_meshes_build_on_equals_one_process(self):
        self.assertEqual(self.notes_of("sharded"), [[], [], []])

    def test_who_waits_neither_blocks_nor_spins(self):
        facts = dict(self.notes_of("overlap")[0])
        self.assertLess(facts.pop("busy"), 0.3)
        self.assertIn("cannot begin in a callback", facts.pop("nested"))
        self.assertEqual(facts, {"begun": False, "over": True, "sum": 9, "seen": [9, True]})

    def test_misuse(self):
        same_shapes = "all ranks must call it with the same shapes"
        expected = {"send": "is not among the collectives of the backend cohort",
                    "sparse": "takes dense tensors on the CPU",
                    "sizes": r"is in another collective; expected 10\d values",
                    "shapes": f"expected (24|32|40); {same_shapes}",
                    "names": "is in another collective; expected all_",
                    "forked": "forked after init_process_group"}
        for rank, notes in enumerate(self.notes_of("refused")):
            self.assertRegex(notes["group"], r"new_group\(ranks, backend=.gloo" if rank == 0 else "^$")
            self.assertEqual(notes.keys(), {*expected, "group"})
            for name, text in expected.items():
                self.assertRegex(notes[name], text, name)


class Losses(unittest.TestCase):

    def test_a_killed_rank_is_named(self):
        notes, _, log = run_job("killed", 3, recovery=True)
        for rank in (0, 1):
            self.assertEqual(len(notes[rank]), 3, log)
            for text in notes[rank]:
                self.assertRegex(text, r"RuntimeError: .*rank 2 \(host .*\) was lost", log)

    def test_a_rank_that_is_killed_in_an_exchange_is_named(self):
        notes, _, log = run_job("killed_in_an_exchange", 2, recovery=True)
        self.assertRegex(notes[0][0], r"\[broadcast\] rank 1 .* was lost", log)

    def test_a_loss_is_told_where_the_root_lives(self):
        notes, _, log = run_job("killed_in_anothers_broadcast", 3, recovery=True)
        for rank in (0, 1):
            self.assertRegex(notes[rank][0], r"\[broadcast\] rank 2 .* was lost", log)

    def test_the_loss_of_rank_0_ends_the_others(self):
        notes, _, log = run_job("rank_0_is_killed", 2, recovery=True)
        self.assertEqual(notes, [None, None], log)
        self.assertRegex(log, r"rank 0 \(host .*\) has died")

    def test_a_rank_that_does_not_come_is_named(self):
        notes, code, log = run_job("late", 2)
        self.assertEqual(notes, [None, None], log)
        self.assertEqual(code, 4, log)
        self.assertRegex(log, r"waiting for ring round .* missing rank 1 \(host")

    def test_an_exception_on_a_rank_ends_the_others(self):
        notes, code, log = run_job("raises", 2)
        self.assertEqual(notes, [None, None], log)
        self.assertNotEqual(code, 0)
        self.assertIn("the program raised KeyError: 'a mistake'", log)

    def test_an_exit_of_a_rank_ends_the_others_with_its_code(self):
        notes, code, log = run_job("exits", 2)
        self.assertEqual(notes, [None, None], log)
        self.assertEqual(code, 3, log)
        self.assertRegex(log, r"rank 1 .*the program ended by sys.exit\(3\)")

    def test_an_exit_that_is_caught_ends_nothing(self):
        notes, code, log = run_job("exits_that_are_caught", 2)
        self.assertEqual((notes, code), ([2, 2], 0), log)

    def test_sums_of_different_sizes_are_told_at_the_limit(self):
        notes, code, log = run_job("other_sizes", 2)
        self.assertEqual((notes, code), ([None, None], 4), log)
        self.assertRegex(log, r"rank 0: waiting for all_reduce of 100 values \(#5\)")
        self.assertRegex(log, r"rank 1: waiting for all_reduce of 5000 values \(#5\)")

    def test_another_timeout_in_one_process(self):
        notes, _, log = run_job("other_timeout", 1)
        self.assertRegex(notes[0], "ValueError: .*timeout 0:30:00; the process's first group has 0:00:40", log)

    def test_places_that_do_not_agree(self):
        notes, _, log = run_job("other_places", 1)
        self.assertIn("told to be rank 7 of 1", notes[0], log)


if __name__ == "__main__":
    END = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    MPIRUN[:] = sys.argv[1:END]
    unittest.main(argv=[sys.argv[0], *sys.argv[END + 1:]])
