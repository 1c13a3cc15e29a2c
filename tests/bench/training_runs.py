"""Training runs for measurements: started with jobs/launch.sh, read from metrics.jsonl."""

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


def inject(shares):
    """--inject for world ranks: {rank: share of its speed}."""
    return ";".join(f"rank={rank},cpu={share:g}" for rank, share in shares.items())
