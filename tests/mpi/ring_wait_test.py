"""A rank that comes late to a round: the others name it, and none of them burns a core."""

import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s  # noqa: E402

PROGRAM = None
MPIRUN = None
RANKS = 4
SECONDS = 5.0  # named after three fifths of that, the job would end after six fifths


class LateMember(unittest.TestCase):

    def round_with_late_rank(self, algorithm, late, *nodes):
        done = subprocess.run(
            [*MPIRUN, "--mca", "btl", "self,vader,tcp", "-n", str(RANKS), PROGRAM, algorithm,
             str(late), str(SECONDS), *nodes],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left_s())
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def check(self, algorithm, *nodes):
        late = 2
        log = self.round_with_late_rank(algorithm, late, *nodes)
        stalls = [line for line in log.splitlines() if "waiting for ring round (#42)" in line]
        self.assertGreaterEqual(len(stalls), RANKS - 1, log)
        for line in stalls:
            missing = re.findall(r"rank (\d+) \(host", line.split("missing", 1)[1])
            self.assertEqual(missing, [str(late)], line)
        shares = [float(share) for share in re.findall(r"core_share (\S+)", log)]
        self.assertEqual(len(shares), RANKS - 1, log)
        self.assertLess(max(shares), 0.1, log)
        print(f"{algorithm} {' '.join(nodes)}: at most {max(shares):.4f} of a core")

    def test_ring_in_one_node(self):
        self.check("ring")

    def test_ring_between_nodes(self):
        self.check("ring", "0", "0", "1", "1")

    def test_ring_of_single_ranks(self):
        self.check("ring", "0", "1", "2", "3")

    def test_ordered_between_nodes(self):
        self.check("ordered", "0", "1", "1", "0")

    def test_mpi(self):
        self.check("mpi")


if __name__ == "__main__":
    separator = sys.argv.index("--")
    PROGRAM = sys.argv[separator - 1]
    MPIRUN = sys.argv[separator + 1:]
    unittest.main(argv=[sys.argv[0], "-v"])
