#!/usr/bin/env python3
"""Seconds from `kill -9` of a rank to the next update that the others' job applies.

    loss_time.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--runs 20] [--only REGEX] [--tcp-only]
                 [--model NAME]

Four workers (and a server, or two) on this host, whose mini-batches are sleeps (--compute sleep:30ms). After two
seconds of training a rank is killed: a worker that is not rank 0; rank 0, which with one server is the server too;
of two servers the second. A row per mode and rank: the median and the 95th percentile of the seconds until the job
has noticed the loss (its `lost` record, or the `resume` record of the ranks that form the next world) and until the
first update after that (a `train` record each), as a process outside reads them in metrics.jsonl, and the median of
the samples that are trained again. The seconds contain what is left of the survivors' mini-batch, up to 30 ms.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fault"))
import fault_support  # noqa: E402

Case = collections.namedtuple("Case", ("arch", "mode", "servers", "victim"))
CASES = [Case("servers", "ssgd", 1, "worker"), Case("servers", "asgd", 1, "worker"),
         Case("servers", "adaptive", 1, "worker"), Case("ring", "ring", 0, "worker"), Case("ring", "star-h", 0, "worker"),
         Case("servers", "ssgd", 1, "rank 0"), Case("servers", "asgd", 1, "rank 0"),
         Case("servers", "adaptive", 1, "rank 0"), Case("ring", "ring", 0, "rank 0"),
         Case("servers", "ssgd", 2, "server 1"), Case("servers", "asgd", 2, "server 1")]
WORKERS = 4
TRAINED_S = 2.0
LONGEST_S = 30.0


def records(path):
    """What is whole of a file that grows, and that a resumed run cuts."""
    text = path.read_bytes()
    return [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]


def measure(arguments, case, run):
    """(seconds until it was noticed, until the next update, samples trained again) of one job."""
    ranks = WORKERS + case.servers
    victim = {"rank 0": 0, "server 1": 1}.get(case.victim, 1 + case.servers + run % (WORKERS - 1))
    with tempfile.TemporaryDirectory(prefix="cohort-loss-") as folder:
        job = fault_support.Job(arguments.cohort, arguments.data, pathlib.Path(folder) / "run",
                                fault_support.Mode(case.arch, case.mode), 10**9,
                                launch=["--tcp-only"] if arguments.tcp_only else [],
                                train=["--compute", "sleep:30ms", "--servers", case.servers], ranks=ranks,
                                log_every_s=1e-6, model=arguments.model)
        try:
            metrics = job.out / "metrics.jsonl"
            if not job.wait_until(lambda: job.events("start")):
                sys.exit(f"{case} did not begin:\n{job.last_lines()}")
            job.last(TRAINED_S)
            process = job.ranks()[victim]
            applied = records(metrics)[-1]["samples_applied"]
            killed = time.monotonic()
            os.kill(process, signal.SIGKILL)
            noticed = None
            while time.monotonic() - killed < LONGEST_S and job.running():
                lines = records(metrics)
                now = time.monotonic() - killed
                told = [i for i, line in enumerate(lines) if line["event"] in ("lost", "resume")]
                if told:
                    noticed = noticed or now
                    if any(line["event"] == "train" for line in lines[told[-1]:]):
                        again = applied - lines[told[-1]]["samples_applied"]
                        return noticed, now, max(0, again)
                time.sleep(0.001)
            sys.exit(f"{case} did not go on:\n{job.last_lines()}")
        finally:
            job.end()


def percentile_95(values):
    return sorted(values)[round(0.95 * (len(values) - 1))]


def bench_parser(text, runs):
    """What the benchmarks of this folder share of their command lines."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--only", default="", metavar="REGEX")
    return parser


def main():
    parser = bench_parser(__doc__, 20)
    parser.add_argument("--tcp-only", action="store_true")
    parser.add_argument("--model", default="smallcnn")
    arguments = parser.parse_args()
    print("| mode | lost | noticed, s: median, 95 % | next update, s: median, 95 % | samples trained again |\n"
          "|---|---|---|---|---|", flush=True)
    for case in CASES:
        servers = f" of {case.servers} servers" if case.servers > 1 else ""
        name = f"{case.arch}/{case.mode}/{case.victim}"
        if not re.search(arguments.only, name):
            continue
        *times, again = zip(*(measure(arguments, case, run) for run in range(arguments.runs)))
        columns = [f"{statistics.median(values):.3f}, {percentile_95(values):.3f}" for values in times]
        print(f"| {case.arch}/{case.mode} | {case.victim}{servers} | {' | '.join(columns)} | "
              f"{statistics.median(again):.0f} |", flush=True)


if __name__ == "__main__":
    main()
