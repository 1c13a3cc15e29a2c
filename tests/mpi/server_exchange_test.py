"""`cohort bench exchange` on real ranks: one JSON line, sums as they must be, bandwidths as defined.

Usage: server_exchange_test.py COHORT -- MPIRUN OPTIONS...
"""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s  # noqa: E402

PROGRAM = ""
MPIRUN = []


def run(ranks, *options):
    return subprocess.run(
        [*MPIRUN, "-n", str(ranks), PROGRAM, "bench", "exchange", "--repetitions", "3", "--json",
         *options],
        capture_output=True, text=True, timeout=left_s(), check=False)


def measure(ranks, *options):
    result = run(ranks, *options)
    if result.returncode != 0:
        raise AssertionError(f"exit code {result.returncode}: {result.stderr}")
    lines = result.stdout.splitlines()
    if len(lines) != 1:
        raise AssertionError(f"one line was expected: {result.stdout}")
    return json.loads(lines[0])


class Exchange(unittest.TestCase):
    def check(self, line, traffic):
        self.assertTrue(line["correct"])
        self.assertGreater(line["cpu_s"], 0)
        self.assertGreaterEqual(line["median_s"], line["min_s"])
        bandwidth = 1e-9 * traffic * line["bytes"] / line["median_s"]
        self.assertAlmostEqual(line["bus_gb_per_s"], bandwidth, delta=1e-6 * bandwidth)

    def test_servers_and_plain_streams(self):
        for op in "push-pull", "streams":
            for servers, workers in (1, 1), (1, 3), (2, 2), (3, 1):
                with self.subTest(op=op, servers=servers, workers=workers):
                    line = measure(servers + workers, "--op", op, "--servers", str(servers),
                                   "--bytes", "700000")
                    self.assertEqual(line["ranks"], servers + workers)
                    self.assertEqual(line["servers"], servers)
                    self.assertLess(abs(line["bytes"] - 700000), 64 * servers)
                    self.check(line, 2 * workers)

    def test_servers_with_many_chunks_and_threads(self):
        line = measure(3, "--op", "push-pull", "--bytes", "3000000", "--chunk-bytes", "10000",
                       "--threads", "3")
        self.assertEqual(line["chunk_bytes"], 10000)
        self.check(line, 4)

    def test_all_reduce_and_plain_all_reduce(self):
        for algorithm in "ring", "ordered", "mpi":
            line = measure(3, "--bytes", "300000", "--algorithm", algorithm)
            self.assertEqual(line["algorithm"], algorithm)
            self.check(line, 4 / 3)
        self.check(measure(2, "--op", "mpi-allreduce", "--bytes", "300000"), 1)

    def test_what_cannot_be_measured_is_a_usage_error(self):
        for options in ("--op", "gossip"), ("--algorithm", "tree"):
            result = run(2, *options)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(options[1], result.stderr)
        for op in "push-pull", "streams":
            result = run(2, "--op", op, "--servers", "2")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("expected at least 3 ranks", result.stderr)


if __name__ == "__main__":
    at = sys.argv.index("--")
    PROGRAM = sys.argv[1]
    MPIRUN = sys.argv[at + 1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
