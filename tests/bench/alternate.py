#!/usr/bin/env python3
"""Compares commands that print JSON lines, run in turn: A B .. A B .. so that drift hits all.

  alternate.py --runs 7 --key per_second \\
      --command 'cohort=build/release/jobs/cohort bench engine --model resnet20 --batch 128 --threads 1 --json' \\
      --command 'torch=python3 tests/bench/pytorch/engine.py --model resnet20 --batch 128 --threads 1'

Prints a table with the median, minimum and maximum of --key per command, the peak resident memory of
the command's process, and the ratio of the first command's median to each other's (and to the best of
the others). The value of --key is read from the last line of the output that is a JSON object.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys


def run(command, key):
    """One run: (value of key, peak resident MiB of the process)."""
    process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"command failed with status {status}: {command}\n{output}")
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            record = json.loads(line)
            if key not in record:
                sys.exit(f"no field '{key}' in: {line}")
            return float(record[key]), usage.ru_maxrss / 1024
    sys.exit(f"no JSON line in the output of: {command}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--key", default="per_second")
    parser.add_argument("--json", metavar="FILE", help="also write all values to FILE")
    arguments = parser.parse_args()
    commands = []
    for text in arguments.command:
        name, separator, command = text.partition("=")
        if not separator or not command:
            parser.error(f"--command wants NAME=COMMAND, got '{text}'")
        commands.append((name, command))

    values = {name: [] for name, _ in commands}
    memory = {name: [] for name, _ in commands}
    for turn in range(arguments.runs):
        for name, command in commands:
            value, peak = run(command, arguments.key)
            values[name].append(value)
            memory[name].append(peak)
            print(f"run {turn + 1}/{arguments.runs} {name}: {value:.6g}", file=sys.stderr)

    medians = {name: statistics.median(v) for name, v in values.items()}
    first = commands[0][0]
    print(f"| {arguments.key} | median | min | max | peak MiB | {first} / this |")
    print("|---|---|---|---|---|---|")
    for name, _ in commands:
        peak = statistics.median(memory[name])
        print(f"| {name} | {medians[name]:.6g} | {min(values[name]):.6g} | {max(values[name]):.6g} "
              f"| {peak:.0f} | {medians[first] / medians[name]:.3f} |")
    others = [medians[name] for name, _ in commands[1:]]
    if others:
        print(f"\n{first} / best of the others: {medians[first] / max(others):.3f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"key": arguments.key, "commands": dict(commands), "values": values,
                       "peak_mib": memory}, file, indent=1)


if __name__ == "__main__":
    main()
