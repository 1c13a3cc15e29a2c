#!/usr/bin/env python3
"""SaPS where two of eight workers run at a quarter of the speed.

    saps.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--part bound|accuracy]

bound: mini-batches are sleeps of 40 ms. For each bound D the pushes applied, those of them over the bound
(admitted by the progress rule), the largest lag of all, and the fast workers' pace against asgd's,
which is run in turn. The exit code is 1 when it is more than 5 % away.
accuracy: a small network, time and samples to --target for ssgd, asgd, ssp:3 and saps.
"""

import statistics
import sys

import training_runs

WORKERS = 8
SLOW = (7, 8)  # world ranks, with one server
SHARE = 0.25


def train(arguments, mode, more):
    return training_runs.run(arguments.cohort, 1 + WORKERS, [
        "--data", arguments.data, "--arch", "servers", "--mode", mode, "--log-every-s", 0.5, *more])


def pace(summary):
    """Mean mini-batches per second of a fast worker."""
    fast = [worker["samples_per_s"] for index, worker in enumerate(summary["by_worker"])
            if index + 1 not in SLOW]
    return statistics.mean(fast)


def show_bound(arguments):
    """Whether the fast workers keep asgd's pace under every bound."""
    words = ["--model", "softmax", "--batch", 8, "--compute", "sleep:40ms", "--lr", 0.001,
             "--samples", arguments.bound_samples,
             "--inject", training_runs.inject({rank: SHARE for rank in SLOW})]
    modes = ["asgd", *(f"saps:{bound}" for bound in arguments.bounds)]
    found = {mode: [] for mode in modes}
    for _ in range(arguments.rounds):
        for mode in modes:
            found[mode].append(train(arguments, mode, words)[-1])
    base = statistics.median(pace(summary) for summary in found["asgd"])
    print("| mode | pushes applied | over the bound | interrupted or refused | largest lag "
          "| fast workers' pace, asgd = 1 | slow workers' share of samples |")
    print("|---" * 7 + "|")
    kept = True
    for mode in modes:
        summary = found[mode][-1]
        ratio = statistics.median(pace(one) for one in found[mode]) / base
        kept = kept and abs(ratio - 1) <= 0.05
        refused = sum(summary["pushes_refused"].values())
        slow = sum(summary["by_worker"][rank - 1]["samples"] for rank in SLOW)
        print(f"| `{mode}` | {summary['pushes_applied']} | {summary['pushes_over_bound']} "
              f"| {refused} | {summary['lag_max']:.2f} | {ratio:.3f} "
              f"| {100 * slow / summary['samples_applied']:.1f} % |")
    return kept


def show_accuracy(arguments):
    """Time and samples to the target; all workers are slowed so that eight fit the cores."""
    shares = {rank: arguments.share * (SHARE if rank in SLOW else 1)
              for rank in range(1, WORKERS + 1)}
    words = ["--model", "smallcnn", "--batch", 64, "--lr", arguments.lr, "--samples", 2_000_000,
             "--target-accuracy", arguments.target, "--eval-every-samples", 10_000,
             "--eval-share", 1, "--inject", training_runs.inject(shares)]
    modes = ["ssgd", "asgd", "ssp:3", *(f"saps:{bound}" for bound in arguments.bounds)]
    found = {mode: [] for mode in modes}
    for seed in arguments.seeds:
        for mode in modes:
            records = train(arguments, mode, [*words, "--seed", seed])
            reached = training_runs.seconds_to(records, arguments.target)
            samples = training_runs.samples_to(records, arguments.target)
            found[mode].append((reached, samples, records[-1]))
            print(f"{mode} seed {seed}: {reached} s, {samples} samples", file=sys.stderr)
    print(f"| mode | seconds to {arguments.target:g} | seeds that reached it | thousand samples "
          "| mean lag | largest lag | over the bound |")
    print("|---" * 7 + "|")
    for mode in modes:
        reached = [run for run in found[mode] if run[0]]
        if not reached:
            print(f"| `{mode}` | not reached | 0 | | | | |")
            continue
        means = [statistics.mean(run[column] for run in reached) for column in (0, 1)]
        lags = [statistics.mean(run[2][name] or 0 for run in reached)
                for name in ("lag_mean", "lag_max")]
        over = sum(run[2]["pushes_over_bound"] for run in reached)
        print(f"| `{mode}` | {means[0]:.2f} | {len(reached)} of {len(found[mode])} "
              f"| {means[1] / 1e3:.0f} | {lags[0]:.2f} | {lags[1]:.2f} | {over} |")
    return True


def main():
    parser = training_runs.parser_of(__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--part", choices=["bound", "accuracy"], nargs="+",
                        default=["bound", "accuracy"])
    parser.add_argument("--bounds", nargs="+", default=["0.5", "1", "2", "4", "auto"],
                        help="of saps, in reference batches, or auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bound-samples", type=int, default=24_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--share", type=float, default=0.1, help="of its speed, for fast workers")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--target", type=float, default=0.88)
    arguments = parser.parse_args()
    kept = True
    if "bound" in arguments.part:
        kept = show_bound(arguments)
    if "accuracy" in arguments.part:
        print()
        show_accuracy(arguments)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
