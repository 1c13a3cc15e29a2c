#!/usr/bin/env python3
"""Parameter servers' push and pull against plain MPI messages of the same pattern, in turn.

  push_pull.py --cohort build/release/jobs/cohort --workers 4 --runs 7 [--bytes 100000000]

Prints medians over the runs of the median time of one round and the ratio of speeds.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys


def measure(arguments, servers, op):
    command = [*shlex.split(arguments.mpirun), "-n", str(servers + arguments.workers),
               arguments.cohort, "bench", "exchange", "--op", op, "--bytes", str(arguments.bytes),
               "--servers", str(servers), "--repetitions", "8", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--bytes", type=int, default=100_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe --bind-to none --mca pml ob1 "
                        "--mca btl self,vader,tcp --mca mpi_yield_when_idle 1")
    arguments = parser.parse_args()
    found = {}
    for _ in range(arguments.runs):
        for servers in arguments.servers:
            for op in ("push-pull", "streams"):
                record = measure(arguments, servers, op)
                found.setdefault((servers, op), []).append((record["median_s"], record["cpu_s"]))
    for servers in arguments.servers:
        seconds = {}
        for op in ("push-pull", "streams"):
            runs = found[servers, op]
            seconds[op] = statistics.median(run[0] for run in runs)
            print(f"{servers} server(s) {op:>10}: {seconds[op]:.4f} s "
                  f"({min(run[0] for run in runs):.4f} to {max(run[0] for run in runs):.4f}), "
                  f"{statistics.median(run[1] for run in runs):.3f} s of processor time")
        print(f"{servers} server(s): {seconds['streams'] / seconds['push-pull']:.2f} of the speed "
              "of plain streams")


if __name__ == "__main__":
    main()
