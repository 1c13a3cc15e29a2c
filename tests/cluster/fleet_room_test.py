#!/usr/bin/env python3
"""Jobs of a fleet make room for each other on hosts of network namespaces with slow links: the one that is granted room
is faster than without, and a job that is killed gives its grants back.   fleet_room_test.py COHORT"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "support/comm"), str(ROOT / "cli")]
from netns_hosts import Hosts, bits_per_s, in_own_process_space, wait_until  # noqa: E402
import cli_support  # noqa: E402

CHECK = unittest.TestCase()
COHORT = pathlib.Path(sys.argv[1]).resolve()
RATE = "24mbit"
# The controller and two ranks on the first host, two on each of the others. Each job has a server, a worker beside it,
# and a worker on the second host, on whose card the jobs meet.
SLOTS = [3, 2, 2]
FLEET = """
[cluster]
profile = "{profile}"
[fleet]
make-room = "{rule}"
[defaults]
no-train = true
data = "{data}"
model = "mlp"
time-as = "sleep"
batch = 10
workers = 2
[real]
device = "cpu"
card = "{card_mb:g}MB/s"
checkpoint-every-s = 0
chunk-bytes = 32768
log-every-s = 0.5
lost-after-s = 5
[[job]]
name = "short"
samples = {short}
[[job]]
name = "long"
samples = {long}
"""
PROFILE = """name = "sleeping-ranks"
source = "ranks that sleep in place of computing"
devices_per_node = 2
cores = 64
nic_bytes_per_s = 1e7
latency_s = 1e-4
local_bytes_per_s = 1e10
memory_bytes_per_s = 1e10
update_s = 1e-5
server_threads = 1
[workloads.sleep]
source = "chosen"
device_s_per_sample = 0.005
device_s = 0.0
cpu_s_per_sample = 0.0
cpu_s = 0.0
cpu_threads = 1
backward_share = 0.1
parameter_bytes = 1e6
"""


class Fleet:
    """A fleet that runs on its hosts."""

    def __init__(self, hosts, folder, name, rule, short, long):
        self.hosts = hosts
        self.out = folder / name
        self.log = folder / f"{name}.log"
        (folder / "profile.toml").write_text(PROFILE, encoding="utf-8")
        file = folder / f"{name}.toml"
        file.write_text(FLEET.format(profile=folder / "profile.toml", data=folder / "data.h5", rule=rule, short=short, long=long,
                                     card_mb=0.9 * bits_per_s(RATE) / 8e6), encoding="utf-8")
        words = ["-n", sum(SLOTS), "--bind", "none", "--", "fleet", file, "--out", self.out]
        self.process = subprocess.Popen([*hosts.launch(slots=SLOTS), *map(str, words)], stdout=self.log.open("w"),
                                        stderr=subprocess.STDOUT, env={**os.environ, "COHORT": str(COHORT)})

    def text(self):
        return self.log.read_text(encoding="utf-8")

    def wait_for(self, holds, what):
        wait_until(holds, lambda: f"{what}\n{self.text()}")

    def record(self):
        return json.loads((self.out / "fleet.json").read_text(encoding="utf-8"))

    def result(self):
        """The record when all jobs are over."""
        self.wait_for(lambda: self.process.poll() is not None, "all jobs end")
        return self.record()


def rates(record):
    return {job["name"]: job["samples"] / (job["end_s"] - job["start_s"]) for job in record["jobs"]}


def with_and_without(folder):
    found = {}
    for rule in "off", "shortest":
        with Hosts(len(SLOTS), RATE, both=True) as hosts:
            fleet = Fleet(hosts, folder, rule, rule, short=600, long=800)
            found[rule] = fleet.result()
            CHECK.assertEqual([job["state"] for job in found[rule]["jobs"]], ["budget"] * 2, fleet.text())
    off, room = found["off"], found["shortest"]
    CHECK.assertNotIn("grants", off)
    grants = room["grants"]["list"]
    CHECK.assertGreaterEqual(len(grants), 1)
    CHECK.assertEqual({grant["job"] for grant in grants}, {0})
    CHECK.assertEqual(room["grants"]["granted"], room["grants"]["returned"])
    for name, rate in rates(room).items():
        print(f"{name}: {rates(off)[name]:.1f} samples/s without grants, {rate:.1f} with them")
    CHECK.assertGreater(rates(room)["short"], 1.1 * rates(off)["short"])
    CHECK.assertGreater(rates(room)["long"], 0.7 * rates(off)["long"])


def killed(folder):
    """The job that has a grant loses its server."""
    with Hosts(len(SLOTS), RATE, both=True) as hosts:
        fleet = Fleet(hosts, folder, "killed", "shortest", short=4000, long=5000)
        fleet.wait_for(lambda: "'short': its transfers have weight" in fleet.text(), "a grant is given")
        os.kill(rank_process(hosts.processes(0), 1), signal.SIGKILL)
        fleet.wait_for(lambda: fleet.record()["jobs"][0]["state"] == "failed", "the job fails")
        record = fleet.record()
        CHECK.assertEqual([job["state"] for job in record["jobs"]], ["failed", "stopped"], fleet.text())
        CHECK.assertGreaterEqual(record["grants"]["granted"], 1)
        CHECK.assertEqual(record["grants"]["granted"], record["grants"]["returned"])
        for grant in record["grants"]["list"]:
            CHECK.assertLessEqual(grant["to_s"], record["jobs"][0]["end_s"])


def rank_process(pids, rank):
    """Which of the processes is this rank."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for pid in pids:
        try:
            if os.path.realpath(f"/proc/{pid}/exe") == str(COHORT) and wanted in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
        except OSError:
            pass
    raise AssertionError(f"no rank {rank} among {pids}")


def main():
    in_own_process_space(not_root=77)
    cli_support.PROGRAM = COHORT
    with tempfile.TemporaryDirectory(prefix="cohort-room-") as name:
        folder = pathlib.Path(name)
        cli_support.make_data(folder)
        with_and_without(folder)
        killed(folder)


if __name__ == "__main__":
    main()
