"""Training runs for measurements: started with jobs/launch.sh, read from metrics.jsonl. Virtual runs beside them."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parser_of(text):
    """A script's command line, --cohort so far; `text` is its docstring."""
    parser = argparse.ArgumentParser(description=text,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", default="build/release/jobs/cohort")
    return parser


def run(cohort, ranks, arguments, launch=(), limit_s=3600, check=True):
    """The records of one run, or None where it failed and `check` is off; its output goes nowhere."""
    with tempfile.TemporaryDirectory(prefix="cohort-measure-") as folder:
        out = pathlib.Path(folder) / "out"
        command = [ROOT / "jobs/launch.sh", "-n", ranks, "--interfaces", "lo", "--bind", "none",
                   *launch, "--", "train", "--out", out, "--checkpoint-every-s", 0, "--threads", 1,
                   *arguments]
        command = [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s,
                              env={**os.environ, "COHORT": str(pathlib.Path(cohort).resolve())})
        if done.returncode != 0:
            if check:
                sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
            print(f"status {done.returncode}: {done.stderr[-2000:]}", file=sys.stderr)
            return None
        with open(out / "metrics.jsonl", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def of_kind(records, event):
    return [record for record in records if record["event"] == event]


def samples_to(records, accuracy):
    """Samples applied when the test accuracy first reached `accuracy`, between evaluations by a
    straight line; None when it did not."""
    last = (0, 0.0)
    for record in of_kind(records, "evaluation"):
        here = (record["samples_applied"], record["test_accuracy"])
        if here[1] >= accuracy:
            share = (accuracy - last[1]) / (here[1] - last[1])
            return last[0] + share * (here[0] - last[0])
        last = here
    return None


def seconds_to(records, accuracy):
    """Seconds of training at the first evaluation that reached `accuracy`; None when none did."""
    return next((record["train_s"] for record in of_kind(records, "evaluation")
                 if record["test_accuracy"] >= accuracy), None)


def steady_rate(records):
    """Samples per second after the first updates, which come late (buffers and connections are made)."""
    first, last = of_kind(records, "train")[0], records[-1]
    return ((last["samples_applied"] - first["samples_applied"])
            / (last["train_s"] - first["train_s"]))


def sleeping_profile(device_s_per_sample, backward_share, parameters, rates):
    """A profile of ranks of one machine that sleep in place of computing; its workload is `sleep`.
    @param rates  nic_bytes_per_s, latency_s, local_bytes_per_s, memory_bytes_per_s, update_s"""
    return f"""name = "sleeping-ranks"
source = "ranks of one machine that sleep in place of computing"
devices_per_node = 1
nic_bytes_per_s = {rates["nic_bytes_per_s"]:g}
latency_s = {rates["latency_s"]:.6g}
local_bytes_per_s = {rates["local_bytes_per_s"]:g}
cores = 64
memory_bytes_per_s = {rates["memory_bytes_per_s"]:g}
update_s = {rates["update_s"]:g}
server_threads = 1

[workloads.sleep]
source = "the real runs"
device_s_per_sample = {device_s_per_sample:.9g}
device_s = 0.0
cpu_s_per_sample = 0.0
cpu_s = 0.0
cpu_threads = 1
backward_share = {backward_share:g}
parameter_bytes = {4 * parameters}
"""


def simulate(cohort, profile, trace, arguments, limit_s=1200):
    """The summary of a virtual run. @param profile, trace  their texts; the workload is `sleep`, an empty trace none"""
    with tempfile.TemporaryDirectory(prefix="cohort-measure-") as folder:
        folder = pathlib.Path(folder)
        (folder / "profile.toml").write_text(profile, encoding="utf-8")
        command = [cohort, "simulate", "--profile", folder / "profile.toml", "--time-as", "sleep",
                   "--json", *arguments]
        if trace:
            (folder / "trace.csv").write_text(trace, encoding="utf-8")
            command += ["--trace", folder / "trace.csv"]
        command = [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def inject(shares):
    """--inject for world ranks: {rank: share of its speed}."""
    return ";".join(f"rank={rank},cpu={share:g}" for rank, share in shares.items())
