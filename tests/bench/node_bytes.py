#!/usr/bin/env python3
"""Bytes that reach the server's host, with and without summing gradients on the workers' hosts.

    node_bytes.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--per-host 4] [--hosts 2]

A server on a host of its own and --per-host workers on each of --hosts others; hosts are network namespaces
(needs root, or sudo without a password). Bytes are those that the server's link carried, per update.
The exit code is 1 when staging saves less than 0.8 times the number of workers per host.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/comm"))
from netns_hosts import Hosts, in_own_process_space  # noqa: E402


def measure(arguments, staging):
    """(bytes to the server's host per update, the run's summary)."""
    workers = arguments.per_host * arguments.hosts
    with Hosts(1 + arguments.hosts) as hosts, tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        words = ["-n", 1 + workers, "--bind", "none", "--", "train", "--data", arguments.data,
                 "--out", out, "--arch", "servers", "--mode", arguments.mode, "--model",
                 arguments.model, "--batch", 8, "--samples", 8 * workers * arguments.updates,
                 "--threads", 1, "--checkpoint-every-s", 0, "--node-staging", staging]
        command = [*hosts.launch(slots=[1] + [arguments.per_host] * arguments.hosts),
                   *map(str, words)]
        before = hosts.received_bytes(0)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={
            **os.environ, "COHORT": str(pathlib.Path(arguments.cohort).resolve())})
        if done.returncode != 0:
            sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
        received = hosts.received_bytes(0) - before
        lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        summary = json.loads(lines[-1])
    return received / summary["updates"], summary


def main():
    in_own_process_space()
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", default="build/release/jobs/cohort")
    parser.add_argument("--data", required=True)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--per-host", type=int, default=4)
    parser.add_argument("--mode", default="ssgd")
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--updates", type=int, default=50)
    arguments = parser.parse_args()
    found = {staging: measure(arguments, staging) for staging in ("off", "on")}
    print("| --node-staging | MB to the server's host per update | loss at the end |")
    print("|---|---|---|")
    for staging, (received, summary) in found.items():
        print(f"| {staging} | {received / 1e6:.2f} | {summary['test_loss']:.4f} |")
    ratio = found["off"][0] / found["on"][0]
    print(f"\n{ratio:.2f} times fewer with {arguments.per_host} workers per host")
    return 0 if ratio >= 0.8 * arguments.per_host else 1


if __name__ == "__main__":
    sys.exit(main())
