#!/usr/bin/env python3
"""All-reduce over sizes: Cohort's ring, MPI_Allreduce and gloo, in turn.

  all_reduce.py --cohort build/release/jobs/cohort --ranks 4 --runs 7 [--gloo-python PYTHON]

Each run starts every program once per size (gloo once for all sizes). Prints a table with medians over the
runs of the median time of one sum, and Cohort's ratio to the better of the others (above 1: Cohort is
faster). PYTHON needs PyTorch; without it gloo is left out. MPIRUN and its options: see --mpirun.
"""
import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

GLOO = '''
import json, os, statistics, sys, time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def worker(rank, ranks, sizes):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in sizes:
        buffer, times = torch.zeros(size // 4), []
        for _ in range(max(10, min(100, (64 << 20) // size)) + 3):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(buffer)
            took = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            times.append(took.item())
        if rank == 0:
            print(json.dumps({"bytes": size, "median_s": statistics.median(times[3:])}), flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    ranks, sizes = int(sys.argv[1]), [int(size) for size in sys.argv[2:]]
    mp.spawn(worker, args=(ranks, sizes), nprocs=ranks)
'''


def last_json(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(arguments, sizes, gloo):
    """One run of everything: program -> size -> seconds."""
    times = {"cohort": {}, "mpi": {}}
    mpirun = [*shlex.split(arguments.mpirun), "-n", str(arguments.ranks)]
    for size in sizes:
        repetitions = str(max(10, min(100, (64 << 20) // size)))
        for name, option in (("cohort", ["--op", "allreduce", "--algorithm", arguments.algorithm]),
                             ("mpi", ["--op", "mpi-allreduce"])):
            record = last_json([*mpirun, arguments.cohort, "bench", "exchange", *option, "--bytes",
                                str(size), "--repetitions", repetitions, "--json"])[-1]
            times[name][size] = record["median_s"]
    if gloo:
        times["gloo"] = {record["bytes"]: record["median_s"] for record in last_json(
            [arguments.gloo_python, gloo, str(arguments.ranks), *map(str, sizes)])}
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--most", type=int, default=64 << 20, help="largest size, bytes")
    parser.add_argument("--algorithm", default="ring")
    parser.add_argument("--gloo-python")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe --bind-to none --mca pml ob1 "
                        "--mca btl self,vader,tcp --mca mpi_yield_when_idle 1")
    arguments = parser.parse_args()
    sizes = [size for size in (4096 << 2 * step for step in range(12)) if size <= arguments.most]
    with tempfile.TemporaryDirectory() as folder:
        gloo = None
        if arguments.gloo_python:
            gloo = os.path.join(folder, "gloo_all_reduce.py")
            with open(gloo, "w", encoding="utf-8") as file:
                file.write(GLOO)
        runs = [measure(arguments, sizes, gloo) for _ in range(arguments.runs)]
    programs = list(runs[0])
    print(f"{arguments.ranks} ranks, medians of {arguments.runs} runs, microseconds")
    print(f"{'bytes':>10}" + "".join(f"{name:>12}" for name in programs) + f"{'ratio':>8}")
    ratios = {}
    for size in sizes:
        medians = [statistics.median(run[name][size] for run in runs) for name in programs]
        ratios[size] = min(medians[1:]) / medians[0]
        print(f"{size:>10}" + "".join(f"{1e6 * value:>12.1f}" for value in medians)
              + f"{ratios[size]:>8.2f}")
    large = [ratio for size, ratio in ratios.items() if size >= 256 << 10]
    small = [ratio for size, ratio in ratios.items() if size < 256 << 10]
    for name, some in (("from 256 KiB", large), ("below", small)):
        if some:
            mean = math.exp(sum(map(math.log, some)) / len(some))
            print(f"{name}: geometric mean {mean:.2f}, least {min(some):.2f}")


if __name__ == "__main__":
    main()
