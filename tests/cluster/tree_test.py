#!/usr/bin/env python3
"""A push tree over hosts of network namespaces: fewer bytes to and from the server, the same bits, and
nothing is lost with a head.   tree_test.py COHORT"""

from concurrent.futures import ThreadPoolExecutor
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "support/comm"), str(ROOT / "cli")]
from netns_hosts import Hosts, in_own_process_space, wait_until  # noqa: E402
import cli_support  # noqa: E402

CHECK = unittest.TestCase()
COHORT = pathlib.Path(sys.argv[1]).resolve()
HOSTS = 4  # the first has the server, the others two workers each
WORKERS = 6


def train(hosts, folder, name, *options, kills=False):
    """@param kills  the launcher waits for what was killed: when the job has ended, so do the hosts
    @return folder of results, summary, bytes to and from the server's host per update"""
    out = folder / name
    words = ["-n", 1 + WORKERS, "--bind", "none", "--", "train", "--data", folder / "data.h5", "--out", out, "--arch",
             "servers", "--mode", "ssgd", "--model", "mlp", "--batch", 5, "--threads", 1, "--checkpoint-every-s", 0,
             *options]
    before = [hosts.received_bytes(0), hosts.sent_bytes(0)]
    log = folder / f"{name}.log"
    with log.open("w") as lines, subprocess.Popen(
            [*hosts.launch(slots=[1, 2, 2, 2]), *map(str, words)], stdout=lines, stderr=subprocess.STDOUT,
            env={**os.environ, "COHORT": str(COHORT)}) as job:
        wait_until(lambda: job.poll() is not None or (kills and (out / "exit_code").exists()),
                   lambda: f"the job's end\n{log.read_text()}")
        moved = [hosts.received_bytes(0) - before[0], hosts.sent_bytes(0) - before[1]]
        if kills:
            hosts.close()
    CHECK.assertEqual((out / "exit_code").read_text(encoding="utf-8").split()[:1], ["0"], log.read_text())
    summary = json.loads((out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    CHECK.assertEqual(summary["samples_outstanding"], 0)
    return out, summary, [count / summary["updates"] for count in moved]


def lose_a_host(folder, tree):
    """The head dies, then the other worker of its host."""
    with Hosts(HOSTS) as hosts:
        _, summary, _ = train(hosts, folder, f"lost.{tree}", "--samples", 1500, "--compute", "sleep:5ms",
                              "--lost-after-s", 5, "--inject", "rank=1,kill=0.3s;rank=2,kill=0.5s",
                              "--push-tree", tree, kills=True)
    CHECK.assertEqual(summary["samples_applied"], 1500)
    CHECK.assertEqual(summary["lost"], 2)


def main():
    in_own_process_space(not_root=77)
    cli_support.PROGRAM = COHORT
    groups = ("--push-tree", "1,2,3")
    with tempfile.TemporaryDirectory(prefix="cohort-tree-") as name:
        folder = pathlib.Path(name)
        cli_support.make_data(folder)
        short = ("--samples", 30 * 20, "--deterministic")
        with Hosts(HOSTS) as hosts:
            flat, _, flat_bytes = train(hosts, folder, "flat", *short, "--node-staging", "on")
            once, _, tree_bytes = train(hosts, folder, "once", *short, *groups)
            again, _, _ = train(hosts, folder, "again", *short, *groups)
            # On these hosts auto is no tree for sums; parameters come once to each host.
            down, _, down_bytes = train(hosts, folder, "down", *short, "--node-staging", "on", "--push-tree", "auto")
        CHECK.assertLess(tree_bytes[0], 0.5 * flat_bytes[0], "one sum in place of three")
        CHECK.assertLess(down_bytes[1], 0.6 * flat_bytes[1], "three copies in place of six")
        CHECK.assertEqual(cli_support.tensors(once), cli_support.tensors(again))
        CHECK.assertEqual(cli_support.tensors(once).keys(), cli_support.tensors(flat).keys())
        CHECK.assertEqual(cli_support.tensors(down), cli_support.tensors(flat))
        for kind, count in ("sums of hosts", flat_bytes), ("1,2,3", tree_bytes), ("auto", down_bytes):
            print(f"{kind}: bytes to and from the server's host per update: {count[0]:.0f}, {count[1]:.0f}")
        with ThreadPoolExecutor() as both:
            list(both.map(lambda tree: lose_a_host(folder, tree), ["1,2,3", "auto"]))


if __name__ == "__main__":
    main()
