#!/usr/bin/env python3
"""Samples to a test accuracy in every mode on a healthy cluster, at settings tuned for ssgd.

    mode_table.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 --results table.jsonl
    mode_table.py ... --modes ssgd --lr 0.05 --seeds 1 2 3      # to tune: one setting at a time
    mode_table.py --results table.jsonl --show                  # what there is so far

Every run ends at the last of --targets, or at --samples. Each is added to --results when it ends, and runs
that are there already are not run again: the table can be made in pieces (--minutes), and more seeds can
follow. Workers compute at --share of their speed, mostly asleep, so that all are alike although they
outnumber the cores. The table has means over the seeds at which both the mode and ssgd reached the target;
the ratio is the mode's mean to ssgd's at the same seeds.
"""

import json
import pathlib
import statistics
import sys
import time

import training_runs
from training_runs import of_kind, samples_to

SERVERS = ["ssgd", "asgd", "static:4", "dynamic", "ksync:6", "backup:1", "kbatch-sync:6",
           "kbatch-async:4", "softsync:2", "ssp:3", "dynsgd", "adadelay:1,0.01", "dcasgd:0.04",
           "saps:2", "lgc:2", "zeno++", "localsgd:4", "hier:4:4", "lb-bsp", "sync-switch:0.25",
           "flexrr", "cutoff"]
RINGS = ["ring", "ring:6", "localsgd:4@ring", "hier:4:4@ring"]
SETTING = ("model", "workers", "batch", "lr", "momentum", "share", "lr_rule", "optimizer")


def key(record):
    return (record["mode"], record["seed"], *(record[name] for name in SETTING))


def measure(arguments, mode, seed):
    """One run as a row of the results; None when it failed."""
    ring = mode.startswith("ring") or mode.endswith("@ring")
    first = 0 if ring else 1
    shares = {rank: arguments.share for rank in range(first, first + arguments.workers)}
    words = ["--data", arguments.data, "--arch", "ring" if ring else "servers",
             "--mode", mode.removesuffix("@ring"), "--model", arguments.model,
             "--batch", arguments.batch, "--lr", arguments.lr,
             "--momentum", arguments.momentum, "--seed", seed, "--samples", arguments.samples,
             "--eval-every-samples", arguments.evaluate, "--eval-share", 1, "--log-every-s", 60,
             "--target-accuracy", arguments.targets[-1], "--lr-rule", arguments.lr_rule,
             "--optimizer", arguments.optimizer]
    if arguments.share < 1:
        words += ["--inject", training_runs.inject(shares)]
    records = training_runs.run(arguments.cohort, first + arguments.workers, words, check=False)
    if records is None:
        return None
    summary = records[-1]
    row = {"mode": mode, "seed": seed, **{name: getattr(arguments, name) for name in SETTING},
           "samples_to": {f"{target:g}": samples_to(records, target)
                          for target in arguments.targets},
           "best": max(record["test_accuracy"] for record in of_kind(records, "evaluation")),
           "evaluate": arguments.evaluate, "budget": arguments.samples,
           "revision": records[0]["revision"]}
    for name in ("samples_applied", "samples_returned", "updates", "lag_mean", "lag_max",
                 "lag_updates_mean", "pushes_applied", "pushes_refused", "pushes_discounted",
                 "samples_per_s", "train_s"):
        row[name] = summary.get(name)
    return row


def read(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def cell(rows, base, target):
    """Mean samples in thousands and the ratio to ssgd's at the same seeds, as text."""
    ours = {row["seed"]: row["samples_to"].get(target) for row in rows}
    theirs = {row["seed"]: row["samples_to"].get(target) for row in base}
    missed = sum(value is None for value in ours.values())
    both = [seed for seed, value in ours.items() if value and theirs.get(seed)]
    if not both:
        return f"not reached ({missed})" if missed else "-"
    mean = statistics.mean(ours[seed] for seed in both)
    ratio = mean / statistics.mean(theirs[seed] for seed in both)
    return f"{mean / 1e3:.0f} ({ratio:.2f})" + (f", {missed} not" if missed else "")


def number(rows, name, form):
    values = [row[name] for row in rows if row.get(name) is not None]
    return format(statistics.mean(values), form) if values else "-"


def show(rows):
    """A table per setting, in Markdown."""
    settings = {}
    for row in rows:
        settings.setdefault(tuple(row[name] for name in SETTING), []).append(row)
    for setting, here in settings.items():
        print("\n" + ", ".join(f"{name} {value}" for name, value in zip(SETTING, setting)))
        targets = sorted({target for row in here for target in row["samples_to"]})
        print("| mode | seeds | " + " | ".join(f"to {target}, thousands" for target in targets)
              + " | mean lag | largest | returned |")
        print("|---" * (5 + len(targets)) + "|")
        base = [row for row in here if row["mode"] == "ssgd"]
        order = [*SERVERS, *RINGS]
        modes = sorted({row["mode"] for row in here},
                       key=lambda mode: order.index(mode) if mode in order else len(order))
        for mode in modes:
            ours = [row for row in here if row["mode"] == mode]
            cells = [cell(ours, base, target) for target in targets]
            returned = statistics.mean(row["samples_returned"] / max(1, row["samples_applied"])
                                       for row in ours)
            print(f"| `{mode}` | {len(ours)} | " + " | ".join(cells)
                  + f" | {number(ours, 'lag_mean', '.2f')} | {number(ours, 'lag_max', '.2f')} "
                  f"| {100 * returned:.1f} % |")


def main():
    parser = training_runs.parser_of(__doc__)
    parser.add_argument("--data")
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--modes", nargs="+", default=[*SERVERS, *RINGS],
                        help="NAME@ring is NAME on a ring")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--share", type=float, default=0.1, help="of its speed, for each worker")
    parser.add_argument("--model", default="smallcnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--lr-rule", default="per-sample")
    parser.add_argument("--targets", nargs="+", type=float, default=[0.86, 0.88])
    parser.add_argument("--samples", type=int, default=1_500_000, help="at most, for a run")
    parser.add_argument("--evaluate", type=int, default=10_000, help="samples between evaluations")
    parser.add_argument("--minutes", type=float, default=1e9, help="no run starts later")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    rows = read(arguments.results)
    if not arguments.show:
        limit = time.monotonic() + 60 * arguments.minutes
        there = {key(row) for row in rows}
        failed = set()
        for seed in arguments.seeds:
            for mode in arguments.modes:
                wanted = {**vars(arguments), "mode": mode, "seed": seed}
                if key(wanted) in there or mode in failed or time.monotonic() > limit:
                    continue
                row = measure(arguments, mode, seed)
                if row is None:
                    failed.add(mode)
                    print(f"{mode} seed {seed}: failed, left out", file=sys.stderr)
                    continue
                rows.append(row)
                with arguments.results.open("a", encoding="utf-8") as file:
                    print(json.dumps(row), file=file)
                print(f"{mode} seed {seed}: {row['samples_to']}, best {row['best']:.4f}, lag "
                      f"{row['lag_mean']}, {row['train_s']:.0f} s", file=sys.stderr)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
