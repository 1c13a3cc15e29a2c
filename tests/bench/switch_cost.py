#!/usr/bin/env python3
"""What a live switch costs, for every ordered pair of modes of an architecture.

    switch_cost.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--rounds 3]

Eight workers whose mini-batches are sleeps (--compute sleep:40ms), one of them at a third of the speed. One run
per architecture and round goes through all pairs by --mode-schedule. Two tables, in iterations of the
slowest worker at that moment (from the metrics' `switch` records):

delay: from the decision to the first update under the new plan; updates under the old one go on meanwhile.
cost: the longest time without an update from the decision to that first update, beyond what is usual
between updates of the two plans, whichever is longer.

Exit code 1 when a cost, or with --judge delay a delay, is more than --most.
"""

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
    """(from, to, delay, cost, seconds of the slowest worker's iteration) for all pairs, from one run."""
    walk = tour(MODES[arch])
    ranks = WORKERS + (arch == "servers")
    # The slowest mode makes this many samples in a stage of the schedule.
    stage = int(arguments.stage_s * WORKERS * BATCH * SLOW_SHARE / STEP_S)
    schedule = ",".join(f"{stage * index}:{mode}" for index, mode in enumerate(walk))
    records = training_runs.run(arguments.cohort, ranks, [
        "--data", arguments.data, "--arch", arch, "--model", "softmax", "--batch", BATCH,
        "--compute", f"sleep:{1000 * STEP_S:g}ms", "--mode-schedule", schedule, "--lr", 0.001,
        "--samples", stage * len(walk), "--inject", training_runs.inject({ranks - 1: SLOW_SHARE}),
        "--log-every-s", 1e-6])  # a record per update
    switches = of_kind(records, "switch")
    pairs = [(record["from"], record["to"]) for record in switches]
    if pairs != list(zip(walk, walk[1:])):
        sys.exit(f"asked for {list(zip(walk, walk[1:]))}, got {pairs}")
    times = [record["train_s"] for record in of_kind(records, "train")]
    return [(record["from"], record["to"], record["first_update_after_s"],
             standstill(times, record), record["slowest_own_s"]) for record in switches]


def standstill(times, switch):
    """Longest time without an update around a switch, beyond the usual one."""
    start = switch["requested_at"]
    end = start + switch["first_update_after_s"]
    before = [time for time in times if start - 1 <= time <= start]
    inside = [time for time in times if start < time < end]
    after = [time for time in times if end <= time <= end + 1]
    usual = max(statistics.median(gaps(part) or [0]) for part in (before, after))
    return max(0, max(gaps([*before[-1:], *inside, *after[:1]]), default=0) - usual)


def gaps(times):
    return [later - sooner for sooner, later in zip(times, times[1:])]


def show(title, modes, values):
    """A table from row to column: median and largest."""
    print(f"\n{title} | " + " | ".join(f"`{mode}`" for mode in modes) + " |")
    print("|---" * (1 + len(modes)) + "|")
    for start in modes:
        cells = ["-" if start == end else f"{statistics.median(values[start, end]):.2f} "
                 f"({max(values[start, end]):.2f})" for end in modes]
        print(f"| `{start}` | " + " | ".join(cells) + " |")


def main():
    parser = training_runs.parser_of(__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--arch", choices=MODES, nargs="+", default=list(MODES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stage-s", type=float, default=1.5, help="at least, between switches")
    parser.add_argument("--judge", choices=["cost", "delay"], default="cost")
    parser.add_argument("--most", type=float, default=1.0, help="iterations of the slowest worker")
    arguments = parser.parse_args()
    worst = 0.0
    for arch in arguments.arch:
        delays, costs, slowest = {}, {}, []
        for _ in range(arguments.rounds):
            for start, end, delay, cost, own in measure(arguments, arch):
                delays.setdefault((start, end), []).append(delay / own)
                costs.setdefault((start, end), []).append(cost / own)
                slowest.append(own)
        print(f"\n{arch}: median and largest of {arguments.rounds}, in iterations of the slowest worker "
              f"({1000 * statistics.median(slowest):.0f} ms)")
        show("| delay", MODES[arch], delays)
        show("| cost", MODES[arch], costs)
        judged = costs if arguments.judge == "cost" else delays
        worst = max(worst, *(max(values) for values in judged.values()))
    print(f"\nlargest {arguments.judge}: {worst:.2f}, at most {arguments.most:g} wanted")
    return 1 if worst > arguments.most else 0


if __name__ == "__main__":
    sys.exit(main())
