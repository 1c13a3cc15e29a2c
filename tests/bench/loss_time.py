#!/usr/bin/env python3
"""Seconds from `kill -9` of a worker to the next update that the others' job applies.

    loss_time.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--runs 20] [--only REGEX] [--tcp-only]
                 [--model NAME]

Four workers (and a server) on this host, whose mini-batches are sleeps (--compute sleep:30ms). After two seconds
of training a worker that is not rank 0 is killed. A row per mode: the median and the 95th percentile of the
seconds until the job has noticed the loss (its `lost` record) and until the first update after that (a `train`
record each), as a process outside reads them in metrics.jsonl. The seconds contain what is left of the survivors'
mini-batch, up to 30 ms.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
import fault_support  # noqa: E402

MODES = [fault_support.Mode("servers", "ssgd"), fault_support.Mode("servers", "asgd"),
         fault_support.Mode("servers", "adaptive"), fault_support.Mode("ring", "ring"),
         fault_support.Mode("ring", "star-h")]
WORKERS = 4
TRAINED_S = 2.0
LONGEST_S = 30.0


def follow(path, position):
    """The records that were added since, and the new position."""
    with path.open("rb") as file:
        file.seek(position)
        text = file.read()
    whole = text[:text.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()], position + len(whole)


def measure(arguments, mode, run):
    """(seconds until it was noticed, until the next update) of one job."""
    servers = mode.arch == "servers"
    ranks = WORKERS + servers
    with tempfile.TemporaryDirectory(prefix="cohort-loss-") as folder:
        job = fault_support.Job(arguments.cohort, arguments.data, pathlib.Path(folder) / "run", mode, 10**9,
                                launch=["--tcp-only"] if arguments.tcp_only else [],
                                train=["--compute", "sleep:30ms"], ranks=ranks, log_every_s=1e-6,
                                model=arguments.model)
        try:
            metrics = job.out / "metrics.jsonl"
            if not job.wait_until(lambda: job.events("start")):
                sys.exit(f"{mode.name} did not begin:\n{job.last_lines()}")
            job.last(TRAINED_S)
            victim = 1 + servers + run % (WORKERS - 1)
            position = metrics.stat().st_size
            position -= len(metrics.read_bytes()[:position].rpartition(b"\n")[2])
            process = job.ranks()[victim]
            killed = time.monotonic()
            os.kill(process, signal.SIGKILL)
            noticed = None
            while time.monotonic() - killed < LONGEST_S and job.running():
                records, position = follow(metrics, position)
                for record in records:
                    if record["event"] == "lost":
                        noticed = time.monotonic() - killed
                    elif record["event"] == "train" and noticed is not None:
                        return noticed, time.monotonic() - killed
                time.sleep(0.001)
            sys.exit(f"{mode.name} did not go on:\n{job.last_lines()}")
        finally:
            job.end()


def percentile_95(values):
    return sorted(values)[round(0.95 * (len(values) - 1))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--tcp-only", action="store_true")
    parser.add_argument("--model", default="smallcnn")
    arguments = parser.parse_args()
    print("| mode | noticed, s: median, 95 % | next update, s: median, 95 % |\n|---|---|---|", flush=True)
    for mode in MODES:
        name = f"{mode.arch}/{mode.name}"
        if not re.search(arguments.only, name):
            continue
        times = [measure(arguments, mode, run) for run in range(arguments.runs)]
        columns = [f"{statistics.median(values):.3f}, {percentile_95(values):.3f}" for values in zip(*times)]
        print(f"| {name} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
