#!/usr/bin/env python3
"""Three jobs side by side on real ranks, and the same file on the virtual cluster: the same rates, the same order of modes?

    fleet_real.py --cohort build/release/jobs/cohort --data fashion-mnist.h5

Each job has a server and two workers; nine ranks and the controller. Workers sleep in place of computing, so that a few
cores are enough. On the virtual cluster each worker has a node with a slow network card, and the server shares the first
worker's node. On real ranks of one machine what the second worker sends and receives is paced like that card (--inject
bw). Real rates are those after the first updates. Nothing is fitted.

The exit code is 1 when a rate is further off than --tolerance, or two modes that differ by more than that in reality
come in another order on the virtual cluster.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import training_runs

MODES = ["ssgd", "asgd", "backup:1"]
BATCHES = {"small": 64, "middle": 96, "large": 128}
RANKS = 3 * len(BATCHES) + 1
RATES = {"latency_s": 2e-4, "local_bytes_per_s": 2e10, "memory_bytes_per_s": 2e10, "update_s": 1e-5}


def fleet_text(arguments, profile):
    jobs = "".join(f'[[job]]\nname = "{name}"\nbatch = {batch}\nsamples = {batch * arguments.iterations}\n'
                   for name, batch in BATCHES.items())
    return f"""
[cluster]
profile = "{profile}"
nodes = {2 * len(BATCHES)}
[fleet]
server-placement = "packed"
[defaults]
no-train = true
data = "{arguments.data.resolve()}"
model = "{arguments.model}"
time-as = "sleep"
workers = 2
[real]
device = "cpu"
log-every-s = 0.2
checkpoint-every-s = 0
inject = "rank=2,bw={arguments.card_mb:g}MB/s"
{jobs}"""


def call(command, arguments):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=1200,
                          env={**os.environ, "COHORT": str(pathlib.Path(arguments.cohort).resolve())})
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {command}\n{done.stdout}{done.stderr}")


def rates(arguments, mode, folder):
    """Samples/s of each job: real, virtual."""
    profile = folder / "profile.toml"
    profile.write_text(training_runs.sleeping_profile(
        arguments.sample_ms / 1e3, 0.5, arguments.parameters, {**RATES, "nic_bytes_per_s": 1e6 * arguments.card_mb}),
        encoding="utf-8")
    file = folder / "fleet.toml"
    file.write_text(fleet_text(arguments, profile), encoding="utf-8")
    words = ["fleet", file, "--overwrite", "--set", f"defaults.mode={mode}"]
    call([training_runs.ROOT / "jobs/launch.sh", "-n", RANKS, "--interfaces", "lo", "--bind", "none", "--", *words,
          "--out", folder / "real"], arguments)
    call([arguments.cohort, *words, "--out", folder / "virtual", "--alone", "off"], arguments)
    record = json.loads((folder / "virtual/fleet.json").read_text(encoding="utf-8"))
    found = {}
    for job in record["jobs"]:
        with open(folder / "real" / job["name"] / "metrics.jsonl", encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        if records[0]["parameters"] != arguments.parameters:
            sys.exit(f"{arguments.model} has {records[0]['parameters']} parameters: give --parameters")
        found[job["name"]] = (training_runs.steady_rate(records), job["samples"] / (job["end_s"] - job["start_s"]))
    return found


def main():
    parser = training_runs.parser_of(__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--parameters", type=int, default=656080, help="of the model")
    parser.add_argument("--sample-ms", type=float, default=1, help="sleep per sample")
    parser.add_argument("--card-mb", type=float, default=100, help="of a node's network card, MB/s")
    parser.add_argument("--iterations", type=int, default=200, help="mini-batches of a job")
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--tolerance", type=float, default=0.1)
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="cohort-fleet-") as folder:
        for mode in arguments.modes:
            found[mode] = rates(arguments, mode, pathlib.Path(folder))
    print("| job | mode | real: samples/s | virtual: samples/s | real/virtual |\n|---|---|---:|---:|---:|")
    wrong = 0
    for name in BATCHES:
        for mode in arguments.modes:
            real, virtual = found[mode][name]
            print(f"| {name} | `{mode}` | {real:.0f} | {virtual:.0f} | {real / virtual:.3f} |")
            wrong += abs(real / virtual - 1) > arguments.tolerance
        for first in arguments.modes:
            for second in arguments.modes:
                (real, virtual), (other_real, other_virtual) = found[first][name], found[second][name]
                if real > (1 + arguments.tolerance) * other_real and virtual <= other_virtual:
                    print(f"{name}: `{first}` is faster than `{second}` in reality, not in the simulation",
                          file=sys.stderr)
                    wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
