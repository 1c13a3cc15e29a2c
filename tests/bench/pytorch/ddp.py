#!/usr/bin/env python3
"""Time to a test loss with a slow worker: DistributedDataParallel against cohort.torch.

    PYTHONPATH=build/ci/python ddp.py --python build/peers/bin/python3 --runs 7 --results ddp.json
    ddp.py --results ddp.json --show

Four workers train a small network (ddp_job.py), each mini-batch with a sleep in place of a device. No worker
is slow, or the last worker takes twice or four times as long. DDP sums over --backend; cohort.torch has a parameter
server (a fifth process, which computes nothing) and --mode. The two take turns in every setting and run.
The table has medians over the runs of the seconds until the test loss is --target, and [25 %, 75 %] of them;
the ratio is the median of the ratios of neighbouring runs, Cohort's seconds to DDP's, with its own range. With
no slow worker the table has the samples per second until then, too.
"""

import argparse
import json
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile

JOB = pathlib.Path(__file__).with_name("ddp_job.py")
SLOW = {"no slow worker": 1, "one of four at half speed": 2, "one of four at a quarter": 4}
JOB_OPTIONS = ("batch", "sleep_s", "lr", "target", "most_steps", "evaluate_steps", "mode", "backend")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(arguments, system, slow, seed):
    options = {name: getattr(arguments, name) for name in JOB_OPTIONS}
    with tempfile.TemporaryDirectory(prefix="cohort-ddp-") as folder:
        options.update(workers=4, slow=slow, seed=seed, out=folder, port=free_port())
        command = [*shlex.split(arguments.mpirun), "-n", "4" if system == "ddp" else "5",
                   arguments.python, str(JOB), system, json.dumps(options)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return json.loads(lines[-1])


def measure(arguments):
    results = {"setting": {name: getattr(arguments, name) for name in JOB_OPTIONS},
               "runs": {name: [] for name in SLOW}}
    for seed in range(1, arguments.runs + 1):
        for name, slow in SLOW.items():
            order = ("ddp", "cohort") if seed % 2 else ("cohort", "ddp")
            pair = {system: run(arguments, system, slow, seed) for system in order}
            results["runs"][name].append(pair)
            print(f"run {seed}, {name}: {pair}", file=sys.stderr, flush=True)
            if arguments.results:
                arguments.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return results


def summary(values, digits=2):
    """Median and quartiles; a run that has not reached the target makes them unknown."""
    if any(value is None for value in values):
        missed = sum(value is None for value in values)
        return f"{missed} of {len(values)} not reached"
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) < 2:
        return middle
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle} [{low:.{digits}f}, {high:.{digits}f}]"


def ratios(pairs, key):
    return [pair["cohort"][key] / pair["ddp"][key]
            if None not in (pair["cohort"][key], pair["ddp"][key]) else None for pair in pairs]


def show(results):
    print(f"{results['setting']}")
    print("| setting | DDP, s | Cohort, s | Cohort / DDP |\n|---|---|---|---|")
    for name, pairs in results["runs"].items():
        columns = [summary([pair[system]["seconds"] for pair in pairs]) for system in ("ddp", "cohort")]
        print(f"| {name} | {columns[0]} | {columns[1]} | {summary(ratios(pairs, 'seconds'))} |")
    pairs = results["runs"]["no slow worker"]
    columns = [summary([pair[system]["samples_per_s"] for pair in pairs], 0) for system in ("ddp", "cohort")]
    print(f"| no slow worker, samples/s | {columns[0]} | {columns[1]} | {summary(ratios(pairs, 'samples_per_s'))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="with PyTorch")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--results", type=pathlib.Path, help="also kept here, after every run")
    parser.add_argument("--show", action="store_true", help="only the table of --results")
    parser.add_argument("--mode", default="adaptive")
    parser.add_argument("--backend", default="gloo", help="of DDP")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--sleep-s", type=float, default=0.025, help="of a full mini-batch")
    parser.add_argument("--lr", type=float, default=0.013)
    parser.add_argument("--target", type=float, default=0.88)
    parser.add_argument("--most-steps", type=int, default=600)
    parser.add_argument("--evaluate-steps", type=int, default=8)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl "
                        "self,vader,tcp --mca mpi_yield_when_idle 1")
    arguments = parser.parse_args()
    show(json.loads(arguments.results.read_text(encoding="utf-8")) if arguments.show else measure(arguments))


if __name__ == "__main__":
    main()
