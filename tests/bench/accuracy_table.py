#!/usr/bin/env python3
"""Virtual time to an accuracy under modes, relative to ssgd with the same seed, case by case.

    accuracy_table.py COHORT DATA RESULTS [--cases A,B] [--modes ssgd,asgd,quorum:6,adaptive] [--seeds 1-24] [-- OPTIONS]
    accuracy_table.py COHORT DATA RESULTS --fit          # the constants of e_s (docs/efficiency.md), from asgd and quorum:X
    accuracy_table.py COHORT DATA RESULTS --expected     # samples/s x e_s without training, 0.1 s a run
    accuracy_table.py COHORT DATA RESULTS --pace         # samples/s alone, of more modes
    accuracy_table.py COHORT DATA RESULTS --changes      # samples that a change of the plan costs

A mode may have options: 'adaptive --predictor oracle'. A case is a --pattern of `cohort simulate`, or made of the recordings in data/recordings:
    boot:NAME          blocks of 16 iterations in another order, columns of workers drawn again
    straggler:NAME     one worker after the other is slower by two median iterations for 20 to 60 iterations
    mixed:NAME:NAME    four workers of each
Each case: time [95 % interval over the seeds], samples (n), runs that missed the target, changes of plan. "best": the
fixed mode that is fastest on the other seeds, over all seeds; the last column is the last mode's time relative to it.
"ideal": the time that ssgd's samples take if no worker ever waits.
A run that missed counts with the time of its whole budget. OPTIONS go to every run, in place of those that it has by
itself; adamw takes --momentum away. Three seconds of processor time a run. Runs are kept in RESULTS and not repeated:
of choosers by the program's contents, of fixed modes by their options only, so a change of the simulator wants an
empty folder.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy

CASES = ("recorded:alexnet recorded:vgg13 recorded:lstm recorded:resnet20 boot:alexnet boot:vgg13 straggler:lstm "
         "straggler:resnet20 mixed:alexnet:lstm healthy jitter:1.5 onoff:3 storm:3 transient:5 half:3").split()
SETTING = ("--model smallcnn --time-as resnet50 --workers 8 --servers 8 --batch 64 --momentum 0.9 --lr 0.1 "
           "--lr-schedule cosine:0.02+warmup:20000 --samples 300000 --target-accuracy 0.85 --eval-every-samples 2560 "
           "--eval-samples 2000 --threads 1").split()
UNTRAINED = ("--no-train --model smallcnn --time-as resnet50 --workers 8 --servers 8 --batch 64 --momentum 0.9 "
             "--samples 153600").split()
EXPECTED = (*CASES, *("jitter:1.2 jitter:1.3:pareto:0.3:0.3 transient:20 bandwidth:5 bandwidth:3 server-hot:3 colocated:4 "
                      "persistent:2 persistent:5 delay:3 clustered:3 heterogeneous:3 blip:20 blip:5").split())
EVERY = int(SETTING[SETTING.index("--eval-every-samples") + 1])
CHANGES = 23
ROOT = pathlib.Path(__file__).resolve().parents[2]
COSTS = (ROOT / "include/cohort/sched/efficiency.hpp").read_text()
FINER, LAG = (float(re.search(rf"{name} = ([0-9.]+);", COSTS)[1]) for name in ("kFiner", "kLag"))
CHOOSERS = ("adaptive", "star-", "ssgd-or-asgd")
RECORDINGS = ROOT / "data" / "recordings"


def recording(name):
    lines = [line for line in (RECORDINGS / f"{name}.csv").read_text().splitlines() if not line.startswith("#")]
    return lines[0], numpy.array([[float(cell) for cell in line.split(",")[1:]] for line in lines[1:]])


def made(case, folder):
    """The file of a case that is made of recordings; None: the case is a pattern."""
    kind, *names = case.split(":")
    if kind not in ("boot", "straggler", "mixed"):
        return None
    random = numpy.random.default_rng(5)
    head, times = recording(names[0])
    workers = times.shape[1]
    if kind == "boot":
        order = random.permutation(numpy.arange(0, len(times), 16))
        rows = numpy.concatenate([numpy.arange(first, min(first + 16, len(times))) for first in order])
        times = times[rows][:, random.integers(0, workers, workers)]
    elif kind == "straggler":
        added, first = 2 * numpy.median(times), 0
        while first < len(times):
            first += random.integers(20, 60)
            last = first + random.integers(20, 60)
            times[first:last, random.integers(0, workers)] += added
            first = last
    else:
        other = recording(names[1])[1]
        length, half = min(len(times), len(other)), workers // 2
        times = numpy.hstack([times[:length, random.permutation(workers)[:half]],
                              other[:length, random.permutation(workers)[:half]]])
    path = folder / f"{case.replace(':', '-')}.csv"
    lines = [f"{i}," + ",".join(f"{ms:.2f}" for ms in row) for i, row in enumerate(times)]
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def replaced(setting, options):
    """A setting in which options have other values."""
    kept, skip = [], False
    for word in setting:
        skip = word in options if word.startswith("--") else skip
        kept += [] if skip else [word]
    return [*kept, *options]


def value(setting, option):
    return setting[setting.index(option) + 1]


class Runs:
    def __init__(self, options):
        self._options = options
        self._folder = pathlib.Path(options.results)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._program = hashlib.sha1(pathlib.Path(options.cohort).read_bytes()).hexdigest()
        self._files = {case: made(case, self._folder) for case in options.cases}

    def run(self, case, mode, seed):
        pattern = ["--trace", self._files[case]] if self._files[case] else ["--pattern", case]
        setting = self._options.setting
        named = ["--mode-schedule", mode] if mode.startswith("0:") else ["--mode", *mode.split()]
        command = ["simulate", *setting, *pattern, "--pattern-seed", seed, *named, "--seed", seed, "--json"]
        command = [str(word) for word in command]
        program = self._program if mode.startswith(CHOOSERS) else ""
        kept = self._folder / (hashlib.sha1(" ".join([program, *command]).encode()).hexdigest() + ".json")
        if not kept.exists():
            done = subprocess.run([self._options.cohort, *command], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)}\n{done.stderr[-1000:]}")
            kept.write_text(done.stdout.strip().splitlines()[-1])
        return json.loads(kept.read_text())

    def all(self, modes):
        keys = [(case, mode, seed) for case in self._options.cases for mode in modes for seed in self._options.seeds]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return dict(zip(keys, pool.map(lambda key: self.run(*key), keys)))


def log_time(run):
    return numpy.log(run["tta_virtual_s"] or run["virtual_s"])


def log_samples(run):
    return numpy.log(run["samples_to_target"] or run["samples_applied"])


def finer(run, options):
    """1 - M/B."""
    return 1 - min(1, run["samples_applied"] / run["updates"] / options.reference_batch)


def square_lag(run):
    """E[L^2] over the pushes, without their variation within a worker's."""
    pushes = numpy.array([worker["pushes"] for worker in run["by_worker"]])
    lags = numpy.array([worker["lag_mean"] for worker in run["by_worker"]])
    return (pushes * lags ** 2).sum() / pushes.sum()


def interval(logs):
    logs = numpy.asarray(logs)
    means = numpy.random.default_rng(0).choice(logs, (4000, len(logs))).mean(1)
    low, high = numpy.exp(numpy.quantile(means, [0.025, 0.975]))
    return f"{numpy.exp(logs.mean()):.3f} [{low:.2f}, {high:.2f}]"


def print_table(options, runs):
    fixed = [mode for mode in options.modes if not mode.startswith(CHOOSERS)]
    last = options.modes[-1]
    print(f"| case | {' | '.join(options.modes[1:])} | ideal | best | {last}/best |")
    print("|---" * (len(options.modes) + 3) + "|")
    ratios = {mode: [] for mode in [*options.modes, "ideal", "best"]}
    for case in options.cases:
        times = {mode: numpy.array([log_time(runs[case, mode, seed]) for seed in options.seeds])
                 for mode in options.modes}
        cells = []
        for mode in options.modes[1:]:
            of_mode = [runs[case, mode, seed] for seed in options.seeds]
            samples = numpy.mean([log_samples(run) - log_samples(runs[case, options.modes[0], seed])
                                  for run, seed in zip(of_mode, options.seeds)])
            missed = sum(run["tta_virtual_s"] is None for run in of_mode)
            changes = numpy.mean([run["switches"] for run in of_mode])
            cells.append(f"{interval(times[mode] - times[options.modes[0]])}, n {numpy.exp(samples):.2f}"
                         + (f", {missed} missed" if missed else "")
                         + (f", {changes:.1f} changes" if mode.startswith(CHOOSERS) else ""))
            ratios[mode].append(numpy.mean(times[mode] - times[options.modes[0]]))
        ideal = [log_samples(run) - numpy.log(run["ideal_samples_s"]) - log_time(run)
                 for run in (runs[case, options.modes[0], seed] for seed in options.seeds)]
        ratios["ideal"].append(numpy.mean(ideal))
        others = {mode: (times[mode].sum() - times[mode]) for mode in fixed}  # per seed, of the other seeds
        chosen = [min(fixed, key=lambda mode, i=i: others[mode][i]) for i in range(len(options.seeds))]
        best = numpy.array([times[mode][i] for i, mode in enumerate(chosen)])
        ratios["best"].append(numpy.mean(times[last] - best))
        name = max(set(chosen), key=chosen.count)
        print(f"| {case} | {' | '.join(cells)} | {numpy.exp(numpy.mean(ideal)):.3f} | {name} | {interval(times[last] - best)} |", flush=True)
    means = " | ".join(f"{numpy.exp(numpy.mean(ratios[mode])):.3f}" for mode in [*options.modes[1:], "ideal"])
    print(f"| mean | {means} | | {numpy.exp(numpy.mean(ratios['best'])):.3f} |")


def print_fit(options, runs):
    """Least squares of log e_s = (f (1 - M/B) - kappa E[L^2]) / (1 + ln 1/(1 - momentum)); intervals by drawing seeds."""
    rows = []
    for (case, mode, seed), run in runs.items():
        reference = runs[case, "ssgd", seed]
        if mode != "ssgd" and run["tta_virtual_s"] and reference["tta_virtual_s"]:
            rows.append((case, seed, log_samples(reference) - log_samples(run),
                         finer(run, options) / options.inertia, square_lag(run) / options.inertia))

    def fit(some):
        matrix = numpy.array([[row[3], -row[4]] for row in some])
        return numpy.linalg.lstsq(matrix, numpy.array([row[2] for row in some]), rcond=None)[0]

    def show(name, some):
        if some:
            print(f"{name}: f {fit(some)[0]:.3f}, kappa {fit(some)[1]:.3f}")

    compared = sum(mode != "ssgd" for _, mode, _ in runs)
    print(f"{compared - len(rows)} runs that missed the target, or whose ssgd did, are left out")
    show(f"all {len(rows)} runs", rows)
    random = numpy.random.default_rng(0)
    by_seed = {seed: [row for row in rows if row[1] == seed] for seed in options.seeds}
    drawn = [fit(sum((by_seed[seed] for seed in random.choice(options.seeds, len(options.seeds))), []))
             for _ in range(1000)]
    print("95 % intervals:", numpy.quantile(drawn, [0.025, 0.975], axis=0).T.round(3).tolist())
    for case in options.cases:
        show(f"without {case}", [row for row in rows if row[0] != case])
    made_of_recordings = ("recorded", "boot", "straggler", "mixed")
    show("recordings alone", [row for row in rows if row[0].startswith(made_of_recordings)])
    show("patterns alone", [row for row in rows if not row[0].startswith(made_of_recordings)])


def print_expected(options, runs):
    """The last mode's samples/s x e_s over those of the best other mode."""
    f, kappa = FINER, LAG

    def log_rate(case, mode):
        found = [runs[case, mode, seed] for seed in options.seeds]
        return numpy.mean([numpy.log(run["samples_per_s"])
                           + (f * finer(run, options) - kappa * square_lag(run)) / options.inertia for run in found])

    last, ratios = options.modes[-1], []
    print(f"| case | best | of {options.modes[0]} | {last}/best | changes |\n|---|---|---|---|---|")
    for case in options.cases:
        rates = {mode: log_rate(case, mode) for mode in options.modes}
        best = max(options.modes[:-1], key=rates.get)
        ratios.append(rates[last] - rates[best])
        changes = numpy.mean([runs[case, last, seed]["switches"] for seed in options.seeds])
        print(f"| {case} | {best} | {numpy.exp(rates[best] - rates[options.modes[0]]):.3f} | {numpy.exp(ratios[-1]):.3f} "
              f"| {changes:.1f} |")
    print(f"| mean | | | {numpy.exp(numpy.mean(ratios)):.3f} | |")


def print_pace(options, runs):
    """samples/s over those of the best mode of the same seed; the last mode's least value over the first mode's."""
    print(f"| pattern | {' | '.join(options.modes)} | changes | least {options.modes[-1]}/{options.modes[0]} |")
    print("|---" * (len(options.modes) + 3) + "|")
    for case in options.cases:
        paces = numpy.array([[runs[case, mode, seed]["samples_per_s"] for mode in options.modes] for seed in options.seeds])
        means = numpy.exp(numpy.log(paces / paces.max(1, keepdims=True)).mean(0))
        changes = numpy.mean([runs[case, options.modes[-1], seed]["switches"] for seed in options.seeds])
        print(f"| {case} | {' | '.join(f'{mean:.3f}' for mean in means)} | {changes:.1f} "
              f"| {(paces[:, -1] / paces[:, 0]).min():.2f} |")


def alternating(first, second):
    """A schedule that changes at every evaluation, until nearly all runs have reached their target."""
    return ",".join(f"{i * EVERY}:{(first, second)[i % 2]}" for i in range(CHANGES + 1))


def print_changes(options, runs):
    """Samples of runs that alternate two modes over those of runs with either alone (mean of logarithms), by change.
    The two alone have no changes, so a longer run that has more of them, as a chooser's has, is not taken for a cost."""
    random = numpy.random.default_rng(0)
    all_costs, all_changes = [], []

    def show(name, costs, changes):
        drawn = [random.choice(len(costs), len(costs)) for _ in range(2000)]
        low, high = numpy.quantile([costs[some].sum() / changes[some].sum() for some in drawn], [0.025, 0.975])
        print(f"| {name} | {changes.mean():.1f} | {100 * costs.sum() / changes.sum():.2f} [{100 * low:.2f}, "
              f"{100 * high:.2f}] |", flush=True)

    print("| case | changes | cost of one, % of the samples |\n|---|---|---|")
    for case in options.cases:
        for pair in itertools.combinations(options.modes, 2):
            logs = numpy.array([[log_samples(runs[case, mode, seed]) for mode in (*pair, alternating(*pair))]
                                for seed in options.seeds])
            all_costs.append(logs[:, 2] - logs[:, :2].mean(1))
            all_changes.append(numpy.minimum(numpy.exp(logs[:, 2]) // EVERY, CHANGES))
            show(f"{case}, {' and '.join(pair)}", all_costs[-1], all_changes[-1])
    show("all", sum(all_costs), sum(all_changes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cohort")
    parser.add_argument("data")
    parser.add_argument("results")
    parser.add_argument("--cases")
    parser.add_argument("--modes")
    parser.add_argument("--seeds", default="1-24")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fit", dest="show", action="store_const", const=print_fit, default=print_table)
    what.add_argument("--expected", dest="show", action="store_const", const=print_expected)
    what.add_argument("--changes", dest="show", action="store_const", const=print_changes)
    what.add_argument("--pace", dest="show", action="store_const", const=print_pace)
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    options.more = arguments[cut + 1:]
    untrained = options.show in (print_expected, print_pace)
    options.setting = replaced(UNTRAINED if untrained else ["--data", options.data, *SETTING], options.more)
    options.reference_batch = int(value(options.setting, "--workers")) * int(value(options.setting, "--batch"))
    options.inertia = 1 - numpy.log1p(-float(value(options.setting, "--momentum")))
    if "adamw" in options.more:
        momentum = options.setting.index("--momentum")  # it has none to set, and its beta1 is 0.9, too
        del options.setting[momentum:momentum + 2]
    options.cases = options.cases.split(",") if options.cases else EXPECTED if untrained else CASES
    first, _, last = options.seeds.partition("-")
    options.seeds = list(range(int(first), int(last or first) + 1))
    waiting = ["ssgd", "asgd", "quorum:6", "quorum:4"]
    options.modes = (options.modes.split(",") if options.modes else waiting if options.show is print_fit
                     else ["ssgd", "quorum:7", "asgd"] if options.show is print_changes
                     else [*waiting, "ssp:3", "lb-bsp", "dynamic", "adaptive"] if untrained else [*waiting, "adaptive"])
    pairs = itertools.combinations(options.modes, 2) if options.show is print_changes else ()
    options.show(options, Runs(options).all([*options.modes, *(alternating(*pair) for pair in pairs)]))


if __name__ == "__main__":
    main()
