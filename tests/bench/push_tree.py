#!/usr/bin/env python3
"""Update rates of virtual jobs whose pushes travel flat, as sums of nodes, and over trees.

    push_tree.py --cohort build/release/jobs/cohort [--samples-each 640]

Eight workers a node, the server on a node of its own, time only. Prints a table in samples/s.
"""

import argparse
import re
import subprocess

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--profile", default="8gpu-10g")
    parser.add_argument("--samples-each", type=int, default=640)
    arguments = parser.parse_args()
    print(f"| workers | workload | mode | {' | '.join(WAYS)} |")
    print("|---|---|---|" + "---|" * len(WAYS))
    for workers in 32, 256:
        for workload in "vgg16", "resnet50":
            for mode in "ssgd", f"ksync:{workers * 3 // 4}", "asgd":
                rates = [f"{rate(arguments, workload, mode, workers, way):,}" for way in WAYS]
                print(f"| {workers} | {workload} | `{mode}` | {' | '.join(rates)} |", flush=True)


if __name__ == "__main__":
    main()
