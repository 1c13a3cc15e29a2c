#!/usr/bin/env python3
"""Layers whose products are below a quarter of one core's product of matrices, by network and vector instructions.

    layer_speed.py COHORT [--models lenet,resnet20] [--levels AVX512_CORE,AVX2,AVX,SSE41] [--steps 5]

Each row: the core's product of matrices and the whole step in GF/s; the slowest direction of a layer that takes a
hundredth of the step or more, with its share of the product; how much shorter the step would be if every layer below a
quarter reached it (`lost`: the number that the warning at the start of a run and `cohort info --speed` are about); the
kind of layer without products that takes most, with its share of the step. One thread, in CPU time: other work on the
machine counts by what it takes of caches and memory. Loops that are compiled as copies (add, ReLU, optimizer) follow the
processor, whatever the level.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

MODELS = "lenet smallcnn resnet20 vgg16 alexnet vgg13 densenet121 mobilenetv2 googlenet resnet50 lstm transformer".split()
HEADER = pathlib.Path(__file__).resolve().parents[3] / "include/cohort/model/slow_layers.hpp"
FLOOR = float(re.search(r"kProductFloor = ([0-9.]+);", HEADER.read_text())[1])
COUNTS = 0.01


def profile(options, model, level):
    batch = 8 if model in ("resnet50", "lstm", "transformer") else 32
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": level, "DNNL_MAX_CPU_ISA": level}
    done = subprocess.run([options.cohort, "bench", "engine", "--model", model, "--batch", str(batch), "--threads", "1",
                           "--steps", str(options.steps), "--precision", "f32", "--device", "cpu", "--profile", "--json"],
                          capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"{model} at {level}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def row(options, model, level):
    run = profile(options, model, level)
    samples = run["batch"] * run["steps"]
    product = 1e9 * run["product_gflop_per_second"]
    whole_s = sum(layer["forward_s"] + layer["backward_s"] for layer in run["profile"])
    flops = lost_s = 0
    slowest = (float("inf"), "none")
    others = collections.Counter()
    for layer in run["profile"]:
        if layer["forward_flops"] == 0:
            others[layer["kind"]] += layer["forward_s"] + layer["backward_s"]
        for way in ("forward", "backward"):
            seconds, count = layer[f"{way}_s"], samples * layer[f"{way}_flops"]
            if count == 0 or seconds == 0:
                continue
            flops += count
            share = count / seconds / product
            lost_s += max(0, seconds - count / (FLOOR * product))
            if seconds >= COUNTS * whole_s:
                by = ", ".join(sorted(set(layer["implementations"].values()))) or layer["kind"]
                slowest = min(slowest, (share, f"{layer['name']} {way} ({by})"))
    return (f"| {level} | {model} | {1e-9 * product:.0f} | {1e-9 * flops / whole_s:.0f} "
            f"| {100 * slowest[0]:.0f} %: {slowest[1]} | {100 * lost_s / whole_s:.1f} % "
            f"| {'; '.join(f'{kind} {100 * seconds / whole_s:.0f} %' for kind, seconds in others.most_common(1))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cohort")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--levels", default="AVX512_CORE,AVX2,AVX,SSE41")
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    print("| instructions | network | product GF/s | step GF/s | slowest layer that counts | lost | largest kind without products |\n|---|---|---|---|---|---|---|")
    for level in options.levels.split(","):
        for model in options.models.split(","):
            print(row(options, model, level), flush=True)


if __name__ == "__main__":
    main()
