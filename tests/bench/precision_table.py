#!/usr/bin/env python3
"""Does bf16 cost quality? The same runs with and without it, seed by seed.

  precision_table.py compute COHORT --data fashion-mnist.h5 --text kjv.h5 [--only lenet] [--seeds 1,2,3]
  precision_table.py wire COHORT --data fashion-mnist.h5 [--modes ssgd,asgd] [--seeds 11,12,13]

`compute` trains with --precision f32 and bf16 on one process, the learning rate falling to zero along
a cosine so that the last value is no chance of the last step, and compares what `cohort train` tests
at the end: accuracy in percent (difference in points), or the perplexity of text (difference in
percent). `wire` trains smallcnn on four virtual workers with --wire f32 and bf16 and compares the
samples until the running mean of the parameters reaches 83 %. The interval is that of Student's t over the seeds' differences, at 95 %.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TRAIN = {
    "lenet": ["--epochs", "5", "--batch", "32", "--lr", "0.02"],
    "resnet20": ["--epochs", "3", "--batch", "64", "--lr", "0.1"],
    "lstm": ["--epochs", "1", "--batch", "20", "--lr", "20", "--momentum", "0", "--clip-norm", "0.25"],
    "transformer": ["--epochs", "1", "--batch", "20", "--optimizer", "adamw", "--lr", "0.001",
                    "--clip-norm", "0.25"],
}
T95 = [math.nan, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]


def command_output(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-1000:]}")
    return done.stdout


def trained(options, model, precision, seed):
    """Test accuracy in percent, or perplexity."""
    text = model in ("lstm", "transformer")
    with tempfile.TemporaryDirectory() as folder:
        command_output([options.cohort, "train", "--data", options.text if text else options.data,
                        "--model", model, *TRAIN[model], "--lr-schedule", "cosine:0", "--seed", str(seed),
                        "--precision", precision, "--threads", str(options.threads), "--arch", "ring", "--out",
                        folder + "/run"])
        lines = Path(folder, "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    summary = json.loads(lines[-1])
    return summary["test_perplexity"] if text else 100 * summary["test_accuracy"]


def samples_to_target(options, mode, wire, seed):
    output = command_output(
        [options.cohort, "simulate", "--data", options.data, "--model", "smallcnn", "--workers", "4",
         "--batch", "16", "--lr", "0.05", "--mode", mode, "--seed", str(seed), "--wire", wire,
         "--target-accuracy", "0.83", "--eval-average", "16", "--target-on", "average",
         "--samples", "60000", "--eval-every-samples", "512", "--json"])
    samples = json.loads(output.strip().splitlines()[-1])["samples_to_target"]
    if samples is None:
        sys.exit(f"{mode}, seed {seed}, {wire}: the target was not reached")
    return samples


def interval(values):
    if len(values) < 2:
        return "one seed"
    half = T95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.mean(values)
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]"


def cells(values, digits):
    return ", ".join(f"{value:.{digits}f}" for value in values)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compute", "wire"])
    parser.add_argument("cohort")
    parser.add_argument("--data", required=True)
    parser.add_argument("--text")
    parser.add_argument("--only", action="append", choices=list(TRAIN))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--modes", default="ssgd,asgd,localsgd:8")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.what == "compute":
        print("| model | f32 | bf16 | bf16 - f32 |\n|---|---|---|---|")
        for model in options.only or TRAIN:
            full, half = [], []
            for seed in seeds:
                full.append(trained(options, model, "f32", seed))
                half.append(trained(options, model, "bf16", seed))
            text = model in ("lstm", "transformer")
            apart = [100 * (b / a - 1) if text else b - a for a, b in zip(full, half)]
            print(f"| {model} | {cells(full, 2)} | {cells(half, 2)} "
                  f"| {interval(apart)} {'%' if text else 'points'} |", flush=True)
        return
    print("| mode | samples, f32 | samples, bf16 | bf16 / f32 - 1 |\n|---|---|---|---|")
    for mode in options.modes.split(","):
        full = [samples_to_target(options, mode, "f32", seed) for seed in seeds]
        half = [samples_to_target(options, mode, "bf16", seed) for seed in seeds]
        apart = [100 * (b / a - 1) for a, b in zip(full, half)]
        print(f"| {mode} | {cells(full, 0)} | {cells(half, 0)} | {interval(apart)} % |", flush=True)


if __name__ == "__main__":
    main()
