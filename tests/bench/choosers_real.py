#!/usr/bin/env python3
"""Fixed modes and choosers on real ranks, and the same job on the virtual cluster: who is first at a test accuracy?

    choosers_real.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 --results choosers.json
    choosers_real.py ... --results replay.json --replay alexnet
    choosers_real.py --results choosers.json --show

Eight workers and a server train for real; to each mini-batch a worker adds a sleep of --delay-ms, many times what it
computes, since they outnumber the cores. One of them sleeps --slow times as long; after --change-s seconds it is well
again and another one is slow instead (--inject). Times are of the wall clock (train_s: evaluation pauses are left out).
Modes alternate, one turn per seed; tables have medians.

Virtual: `cohort simulate` with the same options, seeds, and a trace of the same sleeps. Its one free number, the time
that a sample takes beside them, is fitted to the real samples/s of ssgd while nobody is slow, which is run first.

With --replay, workers replay a recording (--compute sleep:T+recorded:NAME): nothing is learned, and the table has
samples/s after the first updates beside those of the virtual twin (--pattern recorded:NAME). A seed is also that of
the recording's first row.

The exit code is 1 when two of ssgd, asgd, the best fixed mode and the choosers (with --replay: two modes) that are
further apart in reality than --tolerance come in another order in the simulation.
"""

import json
import math
import pathlib
import statistics
import sys

import training_runs

FIXED = ["ssgd", "asgd", "static:6", "dynamic", "backup:1", "lb-bsp"]
CHOOSERS = ["star-h", "adaptive"]
REPLAYED = ["ssgd", "asgd", "quorum:6", "static:6", "adaptive"]
SLOW = (5, 2)  # workers: first this one is slow, then that
FIRST = 1      # world rank of worker 0: there is one server
RATES = {"nic_bytes_per_s": 2e10, "local_bytes_per_s": 2e10, "memory_bytes_per_s": 2e10, "update_s": 1e-5}
REPLAY_SETTING = ("replay", "model", "workers", "batch", "sleep_ms", "samples", "seeds")
SETTING = ("model", "workers", "batch", "lr", "delay_ms", "slow", "change_s", "target", "samples", "seeds")


def words_of(arguments, mode, seed):
    return ["--arch", "servers", "--mode", mode, "--model", arguments.model, "--batch", arguments.batch,
            "--lr", arguments.lr, "--seed", seed]


def learning(arguments):
    return ["--samples", arguments.samples, "--target-accuracy", arguments.target,
            "--eval-every-samples", arguments.evaluate]


def injections(arguments, slow):
    """--inject: everybody's sleep, and who is slow when."""
    usual, late = (f"delay={factor * arguments.delay_ms:g}ms" for factor in (1, arguments.slow))
    entries = []
    for worker in range(arguments.workers):
        where = f"rank={FIRST + worker}"
        if not slow or worker not in SLOW:
            entries.append(f"{where},{usual}")
            continue
        first, second = (late, usual) if worker == SLOW[0] else (usual, late)
        entries += [f"{where},{first},to={arguments.change_s:g}s",
                    f"{where},{second},from={arguments.change_s:g}s"]
    return ";".join(entries)


def trace_text(arguments, slow):
    """The same for the virtual cluster."""
    usual_s = arguments.delay_ms / 1e3
    rows = ["time_s,target,delay_s"]
    for worker in range(arguments.workers):
        late = slow and worker == SLOW[0]
        rows.append(f"0,worker:{worker},{arguments.slow * usual_s if late else usual_s:.9g}")
    if slow:
        rows += [f"{arguments.change_s:g},worker:{SLOW[0]},{usual_s:.9g}",
                 f"{arguments.change_s:g},worker:{SLOW[1]},{arguments.slow * usual_s:.9g}"]
    return "\n".join(rows) + "\n"


def real_run(arguments, mode, seed, slow=True):
    more = learning(arguments) if slow else ["--samples", arguments.fit_samples]
    records = training_runs.run(arguments.cohort, FIRST + arguments.workers, [
        *words_of(arguments, mode, seed), *more, "--data", arguments.data, "--eval-share", 1,
        "--node-staging", "off", "--log-every-s", 0.2, "--inject", injections(arguments, slow)])
    last = records[-1]
    if not slow:
        return {"rate": training_runs.steady_rate(records), "parameters": records[0]["parameters"]}
    return {"seconds": last["tta_s"], "rate": last["samples_per_s"],
            "samples": last["samples_applied"], "switches": last["switches"],
            "accuracy": last["test_accuracy"]}


def virtual_run(arguments, mode, seed, parameters, device_s, slow=True):
    words = [*words_of(arguments, mode, seed), "--workers", arguments.workers, "--server-nodes", "own",
             *([*learning(arguments), "--data", arguments.data] if slow
               else ["--samples", arguments.fit_samples, "--no-train"])]
    profile = training_runs.sleeping_profile(device_s, 0.6, parameters,
                                             {**RATES, "latency_s": arguments.latency_ms / 1e3})
    last = training_runs.simulate(arguments.cohort, profile, trace_text(arguments, slow), words)
    return {"seconds": last.get("tta_virtual_s"),
            "rate": last["samples_applied"] / last["virtual_s"],
            "samples": last["samples_applied"], "switches": last.get("switches"),
            "accuracy": last.get("test_accuracy")}


def fitted_device_s(arguments, parameters, rate, simulated):
    """Device time of a sample with which virtual ssgd has the real rate while nobody is slow."""
    low, high = 0.0, arguments.workers / rate
    for _ in range(20):
        middle = (low + high) / 2
        found = simulated(arguments, "ssgd", 1, parameters, middle, False)["rate"]
        low, high = (middle, high) if found > rate else (low, middle)
    return (low + high) / 2


def measure(arguments):
    healthy = [real_run(arguments, "ssgd", seed, slow=False) for seed in arguments.seeds[:3]]
    rate = statistics.median(run["rate"] for run in healthy)
    parameters = healthy[0]["parameters"]
    device_s = fitted_device_s(arguments, parameters, rate, virtual_run)
    results = {"setting": {name: getattr(arguments, name) for name in SETTING},
               "healthy_rate": rate, "device_s_per_sample": device_s,
               "real": {mode: [] for mode in arguments.modes},
               "virtual": {mode: [] for mode in arguments.modes}}
    for seed in arguments.seeds:
        for mode in arguments.modes:
            real = real_run(arguments, mode, seed)
            virtual = virtual_run(arguments, mode, seed, parameters, device_s)
            results["real"][mode].append(real)
            results["virtual"][mode].append(virtual)
            print(f"seed {seed} {mode}: real {real['seconds']} s, {real['rate']:.0f} samples/s; "
                  f"virtual {virtual['seconds']} s, {virtual['rate']:.0f}", file=sys.stderr)
            arguments.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return results


def replay_real(arguments, mode, seed, recording=True):
    compute = f"sleep:{arguments.sleep_ms:g}ms" + (f"+recorded:{arguments.replay}" if recording else "")
    records = training_runs.run(arguments.cohort, FIRST + arguments.workers, [
        *words_of(arguments, mode, seed), "--samples", arguments.samples if recording else arguments.fit_samples,
        "--data", arguments.data, "--node-staging", "off", "--log-every-s", 0.2, "--compute", compute])
    return {"rate": training_runs.steady_rate(records), "switches": records[-1]["switches"],
            "cpu_s": records[-1]["cpu_s"], "parameters": records[0]["parameters"]}


def replay_virtual(arguments, mode, seed, parameters, device_s, recording=True):
    words = [*words_of(arguments, mode, seed), "--workers", arguments.workers, "--server-nodes", "own",
             "--threads", 1, "--no-train", "--samples", arguments.samples if recording else arguments.fit_samples]
    if recording:
        words += ["--pattern", f"recorded:{arguments.replay}", "--pattern-seed", seed]
    profile = training_runs.sleeping_profile(device_s, 0.5, parameters,
                                             {**RATES, "latency_s": arguments.latency_ms / 1e3})
    last = training_runs.simulate(arguments.cohort, profile, "", words)
    return {"rate": last["samples_applied"] / last["virtual_s"], "switches": last.get("switches")}


def measure_replay(arguments):
    healthy = replay_real(arguments, "ssgd", 1, recording=False)
    device_s = fitted_device_s(arguments, healthy["parameters"], healthy["rate"], replay_virtual)
    results = {"setting": {name: getattr(arguments, name) for name in REPLAY_SETTING},
               "healthy_rate": healthy["rate"], "device_s_per_sample": device_s,
               "real": {mode: [] for mode in arguments.modes},
               "virtual": {mode: [] for mode in arguments.modes}}
    for seed in arguments.seeds:
        for mode in arguments.modes:
            real = replay_real(arguments, mode, seed)
            virtual = replay_virtual(arguments, mode, seed, real["parameters"], device_s)
            results["real"][mode].append(real)
            results["virtual"][mode].append(virtual)
            print(f"seed {seed} {mode}: real {real['rate']:.0f} samples/s, {real['cpu_s']:.1f} s of processor time; "
                  f"virtual {virtual['rate']:.0f}", file=sys.stderr)
            arguments.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return results


def median_of(runs, name):
    return statistics.median(run[name] or 0 for run in runs)


def show_replay(results, tolerance):
    """The table in Markdown. True when the orders agree."""
    real = {mode: median_of(runs, "rate") for mode, runs in results["real"].items()}
    virtual = {mode: median_of(runs, "rate") for mode, runs in results["virtual"].items()}
    print("| mode | real: samples/s | switches | virtual: samples/s | switches | real/virtual |\n"
          "|---|---:|---:|---:|---:|---:|")
    for mode in real:
        print(f"| `{mode}` | {real[mode]:.0f} | {median_of(results['real'][mode], 'switches'):.0f} "
              f"| {virtual[mode]:.0f} | {median_of(results['virtual'][mode], 'switches'):.0f} "
              f"| {real[mode] / virtual[mode]:.3f} |")
    apart = [(first, second) for first in real for second in real
             if real[first] > (1 + tolerance) * real[second] and virtual[first] <= virtual[second]]
    for first, second in apart:
        print(f"`{first}` is faster than `{second}` in reality, not in the simulation", file=sys.stderr)
    return not apart


def median_seconds(runs):
    return statistics.median(run["seconds"] if run["seconds"] is not None else math.inf
                             for run in runs)


def cell(runs):
    """Median seconds, least and most; median samples/s; changes of mode."""
    reached = [run["seconds"] for run in runs if run["seconds"] is not None]
    middle = median_seconds(runs)
    words = f"{middle:.1f}" if math.isfinite(middle) else "not reached"
    if reached and len(runs) > 1:
        words += f" ({min(reached):.1f}–{max(reached):.1f}" + (
            ")" if len(reached) == len(runs) else f", {len(reached)} of {len(runs)})")
    rate = statistics.median(run["rate"] for run in runs)
    switches = statistics.median(run["switches"] or 0 for run in runs)
    return f"{words} | {rate:.0f} | {switches:.0f}"


def show(results, tolerance):
    """The table in Markdown. True when the orders agree."""
    real = {mode: median_seconds(runs) for mode, runs in results["real"].items()}
    virtual = {mode: median_seconds(runs) for mode, runs in results["virtual"].items()}
    print("| mode | real: seconds to the target | samples/s | switches | virtual: seconds | samples/s "
          "| switches |\n|---|---:|---:|---:|---:|---:|---:|")
    for mode in real:
        print(f"| `{mode}` | {cell(results['real'][mode])} | {cell(results['virtual'][mode])} |")
    fixed = [mode for mode in real if mode in FIXED]
    best = {name: min(fixed, key=times.get) for name, times in (("real", real), ("virtual", virtual))}
    print(f"\nBest fixed mode: `{best['real']}` on real ranks, `{best['virtual']}` on virtual ones.")

    def order(times, best_fixed):
        compared = {"ssgd": times["ssgd"], "asgd": times["asgd"], "best fixed": times[best_fixed]}
        compared.update({mode: times[mode] for mode in times if mode not in FIXED})
        return compared

    ours, theirs = order(real, best["real"]), order(virtual, best["virtual"])
    for name, times in (("Real", ours), ("Virtual", theirs)):
        print(f"{name}: " + ", ".join(f"{mode} {times[mode]:.1f} s"
                                      for mode in sorted(times, key=times.get)) + ".")
    good = True
    for first in ours:
        for second in ours:
            if (1 + tolerance) * ours[first] < ours[second] and theirs[first] >= theirs[second]:
                good = False
                print(f"`{first}` is faster than `{second}` in reality, not in the simulation",
                      file=sys.stderr)
    return good


def main():
    parser = training_runs.parser_of(__doc__)
    parser.add_argument("--data")
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--replay", metavar="NAME", help="replay this recording (a name or a file)")
    parser.add_argument("--sleep-ms", type=float, default=100, help="with --replay: a mini-batch without its delay")
    parser.add_argument("--modes", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--model", default="smallcnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--delay-ms", type=float, default=40, help="that a worker sleeps in each mini-batch")
    parser.add_argument("--slow", type=float, default=3, help="times slower")
    parser.add_argument("--change-s", type=float, default=8)
    parser.add_argument("--target", type=float, default=0.86)
    parser.add_argument("--samples", type=int, default=500_000, help="at most")
    parser.add_argument("--fit-samples", type=int, default=60_000)
    parser.add_argument("--evaluate", type=int, default=10_240, help="samples between evaluations")
    parser.add_argument("--latency-ms", type=float, default=1, help="of a message, virtual")
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--show", action="store_true", help="no run, only the table")
    arguments = parser.parse_args()
    if arguments.show:
        results = json.loads(arguments.results.read_text(encoding="utf-8"))
    else:
        arguments.modes = arguments.modes or (REPLAYED if arguments.replay else [*FIXED, *CHOOSERS])
        results = (measure_replay if arguments.replay else measure)(arguments)
    table = show_replay if "replay" in results["setting"] else show
    return 0 if table(results, arguments.tolerance) else 1


if __name__ == "__main__":
    sys.exit(main())
