#!/usr/bin/env python3
"""Update rates of jobs whose pushes travel flat, as sums of nodes, and over trees.

    push_tree.py --cohort build/release/jobs/cohort [--samples-each 640]
    push_tree.py --cohort build/release/jobs/cohort --real FILE.h5 [--rate 100mbit] [--hosts 3]

Virtual: eight workers a node, the server on a node of its own, time only. Prints a table in samples/s.
Real ranks: a server and --hosts hosts of two workers each, which are network namespaces (needs root, or sudo
without a password) that send no faster than --rate, and sleep in place of computing. Prints what the
server's host received and sent per update, and samples/s.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/comm"))
from netns_hosts import Hosts, in_own_process_space  # noqa: E402

WAYS = {"flat": ("--node-staging", "off"), "sums of nodes": ("--node-staging", "on"),
        "groups": None, "auto": ("--push-tree", "auto")}


def groups(nodes):
    """Groups of STAR's kind: as many heads as children of each, sums of their groups."""
    size = max(2, round(nodes ** 0.5))
    return "/".join(",".join(str(node) for node in range(first, min(first + size, nodes)))
                    for first in range(0, nodes, size))


def rate(arguments, workload, mode, workers, way):
    nodes = workers // 8
    options = WAYS[way] or ("--push-tree", groups(nodes))
    words = [arguments.cohort, "simulate", "--no-train", "--profile", arguments.profile, "--time-as", workload,
             "--batch", 32, "--workers", workers, "--nodes", nodes, "--arch", "servers", "--server-nodes", "own",
             "--mode", mode, "--samples", arguments.samples_each * workers, *options]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    found = re.search(r"of virtual time, ([\d,]+) samples/s", done.stdout + done.stderr)
    return int(found[1].replace(",", ""))


def real_rate(arguments, hosts, folder, mode, way):
    """MB to and from the server's host per update, samples/s."""
    out = pathlib.Path(folder) / f"{mode}.{way}".replace(" ", "_").replace(":", "_")
    options = WAYS[way] or ("--push-tree", ",".join(str(host) for host in range(1, hosts.count)))
    words = ["-n", 2 * hosts.count - 1, "--bind", "none", "--", "train", "--data", arguments.real, "--out", out,
             "--arch", "servers", "--mode", mode, "--model", arguments.model, "--batch", 8, "--threads", 1,
             "--samples", 16 * (hosts.count - 1) * arguments.updates, "--compute", "sleep:5ms",
             "--checkpoint-every-s", 0, *options]
    before = hosts.received_bytes(0), hosts.sent_bytes(0)
    done = subprocess.run([*hosts.launch(slots=[1] + [2] * (hosts.count - 1)), *map(str, words)],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "COHORT": str(pathlib.Path(arguments.cohort).resolve())})
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {words}\n{done.stdout}{done.stderr}")
    moved = hosts.received_bytes(0) - before[0], hosts.sent_bytes(0) - before[1]
    summary = json.loads((out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    return [count / summary["updates"] / 1e6 for count in moved] + [summary["samples_per_s"]]


def real(arguments):
    workers = 2 * arguments.hosts
    print("| mode | way | MB to the server's host per update | MB from it | samples/s |\n|---|---|---|---|---|")
    with Hosts(1 + arguments.hosts, rate=arguments.rate) as hosts, tempfile.TemporaryDirectory() as folder:
        for mode in "ssgd", f"ksync:{workers * 3 // 4}", "asgd":
            for way in WAYS:
                received, sent, samples = real_rate(arguments, hosts, folder, mode, way)
                print(f"| `{mode}` | {way} | {received:.2f} | {sent:.2f} | {samples:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--profile", default="8gpu-10g")
    parser.add_argument("--samples-each", type=int, default=640)
    parser.add_argument("--real", metavar="FILE.h5", help="a data set: real ranks on hosts of network namespaces")
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--updates", type=int, default=30)
    arguments = parser.parse_args()
    if arguments.real:
        in_own_process_space()
        real(arguments)
        return
    print(f"| workers | workload | mode | {' | '.join(WAYS)} |")
    print("|---|---|---|" + "---|" * len(WAYS))
    for workers in 32, 256:
        for workload in "vgg16", "resnet50":
            for mode in "ssgd", f"ksync:{workers * 3 // 4}", "asgd":
                rates = [f"{rate(arguments, workload, mode, workers, way):,}" for way in WAYS]
                print(f"| {workers} | {workload} | `{mode}` | {' | '.join(rates)} |", flush=True)


if __name__ == "__main__":
    main()
