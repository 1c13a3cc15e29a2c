#!/usr/bin/env python3
"""What a live switch costs, for every ordered pair of modes of an architecture.

    switch_cost.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--rounds 3]

Eight workers whose mini-batches are sleeps (--compute sleep:40ms), one of them at a third of the speed.
One run per architecture and round goes through all pairs by --mode-schedule. The cost of a switch is the
time from the decision to the first update under the new plan, from the metrics' `switch` records, in
iterations of the slowest worker at that moment. Exit code 1 when one costs more than --most.
"""

import argparse
import statistics
import sys

import training_runs
from training_runs import of_kind

MODES = {"servers": ["ssgd", "static:4", "dynamic", "asgd", "saps"],
         "ring": ["ring", "ring:6", "ring:4"]}
WORKERS = 8
BATCH = 8
STEP_S = 0.04
SLOW_SHARE = 1 / 3


def tour(modes):
    """A closed walk along every ordered pair of different modes once."""
    left = {mode: [other for other in modes if other != mode] for mode in modes}
    walk, path = [], [modes[0]]
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            walk.append(path.pop())
    return walk[::-1]


def measure(arguments, arch):
    """The switch records of one run through all pairs."""
    walk = tour(MODES[arch])
    ranks = WORKERS + (arch == "servers")
    # The slowest mode makes this many samples in a stage of the schedule.
    stage = int(arguments.stage_s * WORKERS * BATCH * SLOW_SHARE / STEP_S)
    schedule = ",".join(f"{stage * index}:{mode}" for index, mode in enumerate(walk))
    records = training_runs.run(arguments.cohort, ranks, [
        "--data", arguments.data, "--arch", arch, "--model", "softmax", "--batch", BATCH,
        "--compute", f"sleep:{1000 * STEP_S:g}ms", "--mode-schedule", schedule,
        "--samples", stage * len(walk), "--inject", training_runs.inject({ranks - 1: SLOW_SHARE}),
        "--lr", 0.001])
    switches = of_kind(records, "switch")
    pairs = [(record["from"], record["to"]) for record in switches]
    if pairs != list(zip(walk, walk[1:])):
        sys.exit(f"asked for {list(zip(walk, walk[1:]))}, got {pairs}")
    return switches


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", default="build/release/jobs/cohort")
    parser.add_argument("--data", required=True)
    parser.add_argument("--arch", choices=MODES, nargs="+", default=list(MODES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stage-s", type=float, default=1.5, help="at least, between switches")
    parser.add_argument("--most", type=float, default=1.0, help="iterations of the slowest worker")
    arguments = parser.parse_args()
    worst = 0.0
    for arch in arguments.arch:
        costs, slowest = {}, []
        for _ in range(arguments.rounds):
            for record in measure(arguments, arch):
                cost = record["first_update_after_s"] / record["slowest_own_s"]
                costs.setdefault((record["from"], record["to"]), []).append(cost)
                slowest.append(record["slowest_own_s"])
        print(f"\n{arch}: median and largest of {arguments.rounds} in iterations of the slowest "
              f"worker ({1000 * statistics.median(slowest):.0f} ms); from row to column")
        print("| | " + " | ".join(f"`{mode}`" for mode in MODES[arch]) + " |")
        print("|---" * (1 + len(MODES[arch])) + "|")
        for start in MODES[arch]:
            cells = ["-" if start == end else
                     f"{statistics.median(costs[start, end]):.2f} ({max(costs[start, end]):.2f})"
                     for end in MODES[arch]]
            print(f"| `{start}` | " + " | ".join(cells) + " |")
        worst = max(worst, *(max(values) for values in costs.values()))
    print(f"\nlargest: {worst:.2f}, at most {arguments.most:g} wanted")
    return 1 if worst > arguments.most else 0


if __name__ == "__main__":
    sys.exit(main())
