#!/usr/bin/env python3
"""The table of training speed against PyTorch: every network beside the fastest form of the peer.

  engine_table.py --cohort build/release/jobs/cohort --python build/peers/bin/python \\
      [--only resnet20 --only vgg16] [--threads 1] [--precision bf16] [--level avx2] [--runs 7] [--out FILE]

For each network, number of threads and precision: one start of every form of the peer
(engine.py beside this file: as it is, channels-last, torch.compile, with bf16 autocast for bf16)
finds the fastest; then Cohort and that form are started in turn, --runs times. A row has the medians
of wall-clock speed, [least, greatest], the ratio of medians, the least and greatest ratio of a pair of
neighbouring starts, and the greatest resident memory of either process. The first start of Cohort is
not counted: it measures which kernels are fast and keeps that on disk. Rows are appended to --out.
With --level both programs' libraries use only that set of instructions; the kernels that torch.compile makes may
still use more of them.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Network: (samples per step, timed steps).
CASES = {"lenet": (32, 100), "resnet20": (128, 12), "alexnet": (128, 12), "vgg13": (32, 10), "vgg16": (64, 10),
         "googlenet": (32, 7), "mobilenetv2": (32, 12), "densenet121": (32, 7), "resnet50": (32, 5), "lstm": (20, 12),
         "transformer": (20, 12)}
# What makes both programs believe that the processor has no more instructions.
LEVELS = {"avx2": ("AVX2", "avx2"), "avx": ("AVX", "default"), "sse41": ("SSE41", "default")}


def environment(level):
    """Of both programs: oneDNN's and PyTorch's own kernels at a level of LEVELS, or the processor's own."""
    if level is None:
        return dict(os.environ)
    onednn, aten = LEVELS[level]
    return {**os.environ, "DNNL_MAX_CPU_ISA": onednn, "ONEDNN_MAX_CPU_ISA": onednn, "ATEN_CPU_CAPABILITY": aten}


def measure(command, level):
    """(units per second, peak resident MiB) of a program whose last JSON line has `per_second`."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=environment(level))
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"status {status}: {' '.join(command)}")
    record = json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
    return record["per_second"], usage.ru_maxrss / 1024


def spread(values):
    return f"{statistics.median(values):.4g} [{min(values):.4g}, {max(values):.4g}]"


def row(options, model, threads, precision):
    batch, steps = CASES[model]
    shape = ["--model", model, "--batch", str(batch), "--threads", str(threads), "--steps", str(steps)]
    cohort = [options.cohort, "bench", "engine", *shape, "--precision", precision, "--json"]
    peer = [options.python, str(HERE / "engine.py"), *shape]
    if precision == "bf16":
        peer.append("--bf16")
    forms = {"eager": [], "compile": ["--compile"]}
    if model not in ("lstm", "transformer"):
        forms = {"eager": [], "channels-last": ["--channels-last"],
                 "compile": ["--channels-last", "--compile"]}
    found = {name: measure(peer + extra, options.level)[0] for name, extra in forms.items()}
    best = max(found, key=found.get)
    measure(cohort, options.level)
    ours, theirs = [], []
    for _ in range(options.runs):
        ours.append(measure(cohort, options.level))
        theirs.append(measure(peer + forms[best], options.level))
    speeds, peers = [pair[0] for pair in ours], [pair[0] for pair in theirs]
    pairs = [a / b for a, b in zip(speeds, peers)]
    ratio = statistics.median(speeds) / statistics.median(peers)
    memory = max(pair[1] for pair in ours), max(pair[1] for pair in theirs)
    others = ", ".join(f"{name} {speed:.4g}" for name, speed in found.items())
    return (f"| {model}, {batch} | {precision} | {threads} | {spread(speeds)} | {best} {spread(peers)} "
            f"| {ratio:.2f} [{min(pairs):.2f}, {max(pairs):.2f}] | {memory[0]:.0f}, {memory[1]:.0f} "
            f"| {memory[0] / memory[1]:.2f} | {others} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--python", default=sys.executable, help="a Python that can import torch")
    parser.add_argument("--only", action="append", choices=list(CASES), help="default: all networks")
    parser.add_argument("--threads", action="append", type=int, help="default: 1 and 2")
    parser.add_argument("--precision", action="append", choices=["f32", "bf16"], help="default: both")
    parser.add_argument("--level", choices=list(LEVELS), help="default: the instructions of this processor")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out")
    options = parser.parse_args()
    print("| network, samples | precision | threads | Cohort | PyTorch's fastest | ratio "
          "| MiB, MiB | ratio | one start of each form |\n|---|---|---|---|---|---|---|---|---|")
    for model in options.only or CASES:
        for threads in options.threads or [1, 2]:
            for precision in options.precision or ["f32", "bf16"]:
                line = row(options, model, threads, precision)
                print(line, flush=True)
                if options.out:
                    with open(options.out, "a", encoding="utf-8") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    main()
