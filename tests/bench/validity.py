#!/usr/bin/env python3
"""The virtual cluster against real ranks: the same jobs, the same slowness, samples per second.

    validity.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 --results validity.json
    validity.py --results validity.json --show      # the table of what was measured
    validity.py ... --large --rates measured.toml --results large.json

Real: `cohort train` on one rank per worker (and one per server); mini-batches are sleeps of --sleep-ms, since
the ranks outnumber the cores, and --inject slows one worker down. Virtual: `cohort simulate --no-train`
with a profile that describes this machine and a trace that says the same of the same worker.

The profile's times are the sleep and the bytes of the model. Its one free number, the seconds that a
message takes here (waking up the sleeping receiver above all), comes from one cell of the table, where
transfers are not hidden behind the backward pass: ssgd on the healthy cluster, and localsgd:4 for rings.
All other cells are predictions. --large is a cell where updates and transfers are seen: two workers (each needs a
core for its updates) with vgg16's parameters. With --rates, a file of `mpirun -n 2 cohort profile --model
vgg16 --loopback-network`, nothing is fitted: rates and the message's seconds are those. Real runs alternate over modes
and patterns, --rounds times; the table has medians. The exit code is 1 when a cell differs by more than
--tolerance, or modes that are further apart than that in reality come in another order.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tomllib

import training_runs

SERVERS = ["ssgd", "asgd", "static:6", "dynamic", "backup:1", "ssp:3", "saps:2", "lb-bsp"]
RINGS = ["ring", "ring:7", "localsgd:4@ring"]
BASES = {False: "ssgd", True: "localsgd:4@ring"}  # whose transfers are not hidden; rings: True
PATTERNS = ["healthy", "persistent:2", "delay:2", "bandwidth:10"]
SLOW = 5  # the worker that is slowed down
NIC = 2e10  # bytes/s between two ranks, through memory: far from being a limit
# What --inject bw lets a rank catch up with after a pause, in each direction (comm/transfer/pacer.hpp).
SLACK_S = 0.01
# Where updates are seen.
LARGE = {"model": "vgg16", "workers": 2, "batch": 8, "sleep_ms": 100, "iterations": 60,
         "chunk_bytes": 1 << 20,
         "modes": ["ssgd", "asgd", "ring", "localsgd:4@ring"], "patterns": ["healthy"]}
RATES = {"nic_bytes_per_s": NIC, "local_bytes_per_s": NIC, "memory_bytes_per_s": 2e10,
         "update_s": 1e-5, "latency_s": None}  # None: to be fitted
LIMITS = ("workers", "batch", "sleep_ms", "iterations", "model")


def ring_of(mode):
    return mode.startswith("ring") or mode.endswith("@ring")


def plain(mode):
    return mode.removesuffix("@ring")


def slowness(pattern, sleep_s, push_bytes):
    """What --inject says of a rank and what a trace says of the worker and of its node. bandwidth:F
    makes a transfer of all parameters take F tenths of a mini-batch."""
    name, _, strength = pattern.partition(":")
    by = float(strength or 1)
    if name == "healthy":
        return "", {}, {}
    if name == "persistent":
        return f"cpu={1 / by:g}", {"device_share": 1 / by}, {}
    if name == "delay":
        seconds = (by - 1) * sleep_s
        return f"delay={1e3 * seconds:g}ms", {"delay_s": seconds}, {}
    if name == "bandwidth":
        transfer_s = by * sleep_s / 10
        share = push_bytes / max(transfer_s - SLACK_S, transfer_s / 10) / NIC
        return (f"bw={push_bytes / transfer_s / 1e3:g}kB/s", {},
                {"rx_share": share, "tx_share": share})
    sys.exit(f"no pattern '{pattern}' here; expected healthy, persistent:F, delay:F or bandwidth:F")


def words_of(arguments, mode):
    return ["--arch", "ring" if ring_of(mode) else "servers", "--mode", plain(mode), "--model",
            arguments.model, "--batch", arguments.batch, "--lr", 0.001, "--samples",
            arguments.iterations * arguments.workers * arguments.batch, "--seed", 1]


def real_rate(arguments, mode, pattern, parameters):
    """Samples per second of real ranks after their first updates, and the parameters of the model."""
    servers = 0 if ring_of(mode) else 1
    inject, _, _ = slowness(pattern, arguments.sleep_ms / 1e3, 4 * parameters)
    words = [*words_of(arguments, mode), "--data", arguments.data, "--compute",
             f"sleep:{arguments.sleep_ms:g}ms", "--chunk-bytes", arguments.chunk_bytes,
             "--node-staging", "off", "--log-every-s", 0.2]
    if ring_of(mode):
        words += ["--all-reduce", "ring"]
    if inject:
        words += ["--inject", f"rank={servers + SLOW % arguments.workers},{inject}"]
    records = training_runs.run(arguments.cohort, servers + arguments.workers, words)
    return training_runs.steady_rate(records), records[0]["parameters"]


def read_rates(path):
    """Those of a measured profile."""
    measured = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: measured[name] for name in RATES}


def trace_text(pattern, arguments, parameters):
    """CSV of a trace that slows the same worker down; each worker has a node of its own."""
    _, worker, node = slowness(pattern, arguments.sleep_ms / 1e3, 4 * parameters)
    slow = SLOW % arguments.workers
    rows = ["time_s,target,rx_share,tx_share,device_share,delay_s"]
    for target, shares in ((f"worker:{slow}", worker), (f"node:{slow}", node)):
        if shares:
            rows.append(",".join(str(value) for value in (
                0, target, shares.get("rx_share", 1), shares.get("tx_share", 1),
                shares.get("device_share", 1), shares.get("delay_s", 0))))
    return "\n".join(rows) + "\n"


def virtual_rate(arguments, mode, pattern, parameters, latency_s):
    words = [*words_of(arguments, mode), "--no-train", "--workers", arguments.workers, "--threads", 1]
    if not ring_of(mode):
        words += ["--server-nodes", "own"]
    profile = training_runs.sleeping_profile(arguments.sleep_ms / 1e3 / arguments.batch, 0.5, parameters,
                                             {**arguments.rates, "latency_s": latency_s})
    summary = training_runs.simulate(arguments.cohort, profile,
                                     trace_text(pattern, arguments, parameters), words)
    return summary["samples_applied"] / summary["virtual_s"]


def fitted_latency(arguments, mode, parameters, rate):
    """The message's seconds at which the simulation of a healthy cell has the measured rate."""
    low, high = 0.0, arguments.sleep_ms / 1e3
    for _ in range(20):
        middle = (low + high) / 2
        if virtual_rate(arguments, mode, "healthy", parameters, middle) > rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def measure(arguments):
    """All real rates: {pattern: {mode: [samples/s]}}, and the parameters of the model."""
    found = {pattern: {mode: [] for mode in arguments.modes} for pattern in arguments.patterns}
    short = argparse.Namespace(**{**vars(arguments), "iterations": 5})
    _, parameters = real_rate(short, "ssgd", "healthy", 1)
    for turn in range(arguments.rounds):
        for pattern in arguments.patterns:
            for mode in arguments.modes:
                rate, _ = real_rate(arguments, mode, pattern, parameters)
                found[pattern][mode].append(rate)
                print(f"{turn + 1}/{arguments.rounds} {pattern} {mode}: {rate:.0f} samples/s",
                      file=sys.stderr)
    return found, parameters


def predict(arguments, results):
    """Virtual rates of the same cells: {pattern: {mode: samples/s}}."""
    latency = {ring: arguments.rates["latency_s"] for ring in BASES}
    for ring, base in BASES.items():
        if latency[ring] is None and any(ring_of(mode) == ring for mode in arguments.modes):
            rate = statistics.median(results["real"]["healthy"][base])
            latency[ring] = fitted_latency(arguments, base, results["parameters"], rate)
    return {pattern: {mode: virtual_rate(arguments, mode, pattern, results["parameters"],
                                         latency[ring_of(mode)])
                      for mode in modes}
            for pattern, modes in results["real"].items()}, latency


def out_of_order(real, virtual, tolerance):
    """Pairs of modes of an architecture that are further apart than the tolerance in reality and
    stand in another order in the simulation."""
    return [(a, b) for a in real for b in real
            if ring_of(a) == ring_of(b) and real[a] > (1 + tolerance) * real[b]
            and virtual[a] <= virtual[b]]


def show(results, tolerance):
    """The table in Markdown: real and virtual samples/s and their ratio. True when all cells and
    orders agree."""
    patterns = list(results["real"])
    medians = {pattern: {mode: statistics.median(rates) for mode, rates in modes.items()}
               for pattern, modes in results["real"].items()}
    ratios = {pattern: {mode: results["virtual"][pattern][mode] / rate
                        for mode, rate in modes.items()} for pattern, modes in medians.items()}
    print("| mode | " + " | ".join(f"`{pattern}`" for pattern in patterns) + " |")
    print("|---" * (1 + len(patterns)) + "|")
    for mode in medians[patterns[0]]:
        cells = [f"{medians[pattern][mode]:.0f}, {results['virtual'][pattern][mode]:.0f} "
                 f"({ratios[pattern][mode]:.3f})" for pattern in patterns]
        print(f"| `{mode}` | " + " | ".join(cells) + " |")
    good = True
    for pattern in patterns:
        for first, second in out_of_order(medians[pattern], results["virtual"][pattern], tolerance):
            good = False
            print(f"{pattern}: `{first}` is faster than `{second}` in reality, not in the "
                  "simulation", file=sys.stderr)
    differences = [abs(ratio - 1) for modes in ratios.values() for ratio in modes.values()]
    spread = max(max(rates) / min(rates) - 1
                 for modes in results["real"].values() for rates in modes.values())
    seconds = ", ".join(f"{'rings' if ring in (True, 'true') else 'servers'} {1e3 * value:.2f} ms"
                        for ring, value in results["latency"].items() if value is not None)
    print(f"\nDifference: median {100 * statistics.median(differences):.1f} %, largest "
          f"{100 * max(differences):.1f} %. Real rates of a cell lie within {100 * spread:.1f} %. "
          f"Seconds of a message: {seconds}.")
    return good and max(differences) <= tolerance


def main():
    parser = training_runs.parser_of(__doc__)
    parser.add_argument("--data", help="dataset of the real ranks")
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--modes", nargs="+", default=[*SERVERS, *RINGS],
                        help="NAME@ring is NAME on a ring")
    parser.add_argument("--patterns", nargs="+", default=PATTERNS)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sleep-ms", type=float, default=100)
    parser.add_argument("--iterations", type=int, default=60, help="of each worker, on average")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunk-bytes", type=int, default=16384)
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--large", action="store_true", help="the cell with a large model")
    parser.add_argument("--rates", type=pathlib.Path,
                        help="profile by `cohort profile` on two ranks of this machine")
    parser.add_argument("--show", action="store_true", help="no run, only the table")
    parser.add_argument("--predict", action="store_true", help="real rates are there: simulate")
    arguments = parser.parse_args()
    if arguments.large:
        parser.set_defaults(**LARGE)  # what is said on the command line counts
        arguments = parser.parse_args()
    arguments.rates = read_rates(arguments.rates) if arguments.rates else RATES
    if arguments.show or arguments.predict:
        results = json.loads(arguments.results.read_text(encoding="utf-8"))
        for name in LIMITS:
            setattr(arguments, name, results["setting"][name])
        arguments.modes = list(next(iter(results["real"].values())))
    else:
        real, parameters = measure(arguments)
        results = {"setting": {name: getattr(arguments, name) for name in LIMITS},
                   "parameters": parameters, "real": real}
        arguments.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if not arguments.show:
        results["virtual"], results["latency"] = predict(arguments, results)
        arguments.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0 if show(results, arguments.tolerance) else 1


if __name__ == "__main__":
    sys.exit(main())
