#!/usr/bin/env python3
"""Samples per second of modes over those of the best of them, pattern by pattern, time only.

    tests/bench/pace_table.py COHORT [--modes A,B] [--patterns P,Q] [--seeds 11,12,13] [-- OPTIONS]

A row per pattern: geometric means over the seeds, the changes that the last mode made, and its
least pace over that of the first one. OPTIONS go to every `cohort simulate`. About 0.1 s of
processor time for each run of 300 updates of eight workers.
"""
import argparse
import json
import math
import subprocess
import sys

PATTERNS = ("healthy persistent:2 persistent:5 half:3 transient:3 transient:8 blip:5 onoff:3 "
            "clustered:3 bandwidth:5 delay:3 delay:5 server-hot:3 server-hot:5 heterogeneous:3 "
            "colocated:4 storm:3 blip:20 transient:20 delay:20 jitter:1.5 jitter:1.5:exponential "
            "jitter:1.3:pareto:0.3:0.3 jitter:1.2 recorded:alexnet recorded:vgg13 "
            "recorded:resnet20 recorded:lstm").split()
MODES = "ssgd,asgd,ssp:3,lb-bsp,dynamic,quorum:6,quorum:4,adaptive"


def run(options, mode, pattern, seed):
    command = [options.cohort, "simulate", "--no-train", "--json", "--mode", mode,
               "--pattern", pattern, "--pattern-seed", seed, "--seed", seed, *options.more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-1000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cohort")
    parser.add_argument("--modes", default=MODES)
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--seeds", default="11,12,13")
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    options.more = arguments[cut + 1:] or [
        "--model", "smallcnn", "--time-as", "resnet50", "--workers", "8", "--servers", "8",
        "--samples", "153600", "--profile", "8gpu-10g"]
    modes, seeds = options.modes.split(","), options.seeds.split(",")
    print(f"| pattern | {' | '.join(modes)} | changes | least {modes[-1]}/{modes[0]} |")
    print("|---" * (len(modes) + 3) + "|")
    for pattern in options.patterns.split(","):
        logs = {mode: 0.0 for mode in modes}
        changes, least = 0, math.inf
        for seed in seeds:
            runs = {mode: run(options, mode, pattern, seed) for mode in modes}
            paces = {mode: one["samples_per_s"] for mode, one in runs.items()}
            for mode in modes:
                logs[mode] += math.log(paces[mode] / max(paces.values())) / len(seeds)
            changes += runs[modes[-1]]["switches"] / len(seeds)
            least = min(least, paces[modes[-1]] / paces[modes[0]])
        cells = " | ".join(f"{math.exp(logs[mode]):.3f}" for mode in modes)
        print(f"| {pattern} | {cells} | {changes:.1f} | {least:.2f} |", flush=True)


if __name__ == "__main__":
    main()
