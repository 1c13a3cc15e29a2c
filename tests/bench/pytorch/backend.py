#!/usr/bin/env python3
"""torch.distributed on CPUs: the backend "cohort" against gloo, in turn.

    PYTHONPATH=build/ci/python backend.py --python build/peers/bin/python3 --ranks 4 --runs 7

Every run starts the ranks of each backend once, for all sizes: seconds of all_reduce (the slowest rank's; a median over
repetitions), then of a step of DistributedDataParallel with a network of 11 million parameters that computes next to
nothing. The table has medians over the runs; the ratio is the median of the ratios of neighbouring runs, above 1 where
cohort is faster.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]  # bytes
STEP = "DDP step"


def repeated(call, slowest, times):
    took = []
    for _ in range(times + 3):
        call(prepare=True)
        begin = time.perf_counter()
        call(prepare=False)
        took.append(slowest(time.perf_counter() - begin))
    return statistics.median(took[3:])


def ranks(backend):
    """What one rank does."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import cohort.distributed  # noqa: F401  # both backends find their places by it
    torch.set_num_threads(1)
    dist.init_process_group(backend)

    def slowest(seconds):
        took = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return took.item()

    results = {}
    for size in SIZES:
        values = torch.ones(size // 4)

        def sum_values(prepare, values=values):
            if prepare:
                values.fill_(1)
                dist.barrier()
            else:
                dist.all_reduce(values)
        results[str(size)] = repeated(sum_values, slowest, max(5, min(50, (64 << 20) // size)))
    net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(11)])
    net = DistributedDataParallel(net, broadcast_buffers=False)
    x = torch.ones(1, 1024)

    def step(prepare):
        if prepare:
            dist.barrier()
        else:
            net(x).sum().backward()
    results[STEP] = repeated(step, slowest, 5)
    if dist.get_rank() == 0:
        print(json.dumps(results), flush=True)
    dist.destroy_process_group()


def run(arguments, backend):
    command = [*shlex.split(arguments.mpirun), "-n", str(arguments.ranks), arguments.python,
               str(pathlib.Path(__file__).resolve()), "--of-rank", backend]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="with PyTorch")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--of-rank", metavar="BACKEND", help=argparse.SUPPRESS)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl "
                        "self,vader,tcp --mca mpi_yield_when_idle 1")
    arguments = parser.parse_args()
    if arguments.of_rank:
        ranks(arguments.of_rank)
        return
    pairs = []
    for number in range(arguments.runs):
        order = ("cohort", "gloo") if number % 2 else ("gloo", "cohort")
        pairs.append({backend: run(arguments, backend) for backend in order})
    print(f"{arguments.ranks} ranks, medians of {arguments.runs} runs, milliseconds")
    print(f"{'bytes':>10}{'cohort':>12}{'gloo':>12}{'ratio':>8}")
    for key in [str(size) for size in SIZES] + [STEP]:
        cells = [1e3 * statistics.median(pair[backend][key] for pair in pairs)
                 for backend in ("cohort", "gloo")]
        ratio = statistics.median(pair["gloo"][key] / pair["cohort"][key] for pair in pairs)
        print(f"{key:>10}{cells[0]:>12.3f}{cells[1]:>12.3f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
