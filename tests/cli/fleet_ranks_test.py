#!/usr/bin/env python3
"""cohort fleet on real ranks: jobs side by side, alone in their failures, stopped, resumed.

fleet_ranks_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import json
import os
import pathlib
import signal
import subprocess

import cli_support
from cli_support import ProgramTest, events, left_s, run_ranks, tensors, wait_until

OPTIONS = {"model": "mlp", "batch": 10, "lr": 0.02, "samples": 1200, "eval-every-samples": 600}
FLEET = """
[cluster]
nodes = 2
[defaults]
data = "{data}"
model = "mlp"
time-as = "resnet20"
batch = 10
lr = 0.02
samples = 1200
eval-every-samples = 600
workers = 2
[real]
deterministic = true
device = "cpu"
checkpoint-every-samples = 100
"""
JOBS = """
[[job]]
name = "servers"
[[job]]
name = "ring"
arch = "ring"
[[job]]
name = "large"
workers = 3
servers = 2
[[job]]
name = "bad"
data = "missing.h5"
[[job]]
name = "sleeps"
arch = "ring"
no-train = true
samples = 40
eval-every-samples = 0
"""


class FleetOnRanks(ProgramTest):

    def file(self, text):
        path = self.folder / f"{self.id().rsplit('.', 1)[-1]}.toml"
        path.write_text(text.format(data=self.data), encoding="utf-8")
        return path

    def jobs(self):
        record = json.loads((self.out() / "fleet.json").read_text(encoding="utf-8"))
        return {job["name"]: job for job in record["jobs"]}

    def alone(self, ranks, *arguments):
        """The model of a job that has all ranks to itself."""
        out = self.folder / f"alone-{'-'.join(map(str, arguments))}"
        if not out.exists():
            words = [word for name, value in OPTIONS.items() for word in (f"--{name}", value)]
            run_ranks(ranks, "train", "--data", self.data, "--out", out, *words, *arguments, "--device", "cpu",
                      "--deterministic")
        return tensors(out)

    def test_jobs_side_by_side_learn_what_they_learn_alone(self):
        done = run_ranks(6, "fleet", self.file(FLEET + JOBS), "--out", self.out(),
                         code=101)
        self.assertIn("without effect on real ranks: [cluster], time-as", done.stderr)
        self.assertIn("job 'bad' failed: [missing.h5]", done.stderr)
        jobs = self.jobs()
        self.assertEqual({name: job["state"] for name, job in jobs.items()},
                         {"servers": "budget", "ring": "budget", "large": "budget", "bad": "failed",
                          "sleeps": "budget"})
        self.assertLess(jobs["ring"]["start_s"], jobs["servers"]["end_s"], "side by side")
        self.assertGreaterEqual(jobs["large"]["start_s"], max(jobs[name]["end_s"] for name in ("servers", "ring")),
                                "it needs all ranks")
        self.assertGreaterEqual(jobs["bad"]["start_s"], jobs["large"]["end_s"], "first come, first served")
        self.assertEqual([job["samples"] for job in jobs.values()], [1200, 1200, 1200, 0, 40])
        self.assertEqual(tensors(self.out() / "servers"), self.alone(3, "--arch", "servers"))
        self.assertEqual(tensors(self.out() / "ring"), self.alone(2, "--arch", "ring"))
        self.assertEqual(tensors(self.out() / "large"), self.alone(5, "--arch", "servers", "--servers", 2))
        self.assertTrue(events(self.out() / "sleeps", "start")[0]["compute"].startswith("sleep:"))

    def start(self, file, ranks, *arguments, mpirun=()):
        words = [*cli_support.MPIRUN, *mpirun, "-n", ranks, cli_support.PROGRAM, "fleet", file, "--out", self.out(), *arguments]
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def has_checkpoint(self, job):
        return any((self.out() / job).glob("checkpoints/step-*"))

    @staticmethod
    def children(pid):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == pid:
                found.append(int(path.parent.name))
        return sorted(found)

    def test_a_stopped_and_a_killed_fleet_go_on(self):
        slow = FLEET.replace("[real]", '[real]\ninject = "rank=1,delay=25ms"')
        file = self.file(slow + "[[job]]\nname = \"first\"\n[[job]]\nname = \"second\"\narch = \"ring\"\n")
        process = self.start(file, 4)
        wait_until(lambda: self.has_checkpoint("first"), "it trains")
        process.send_signal(signal.SIGUSR1)
        _, log = process.communicate(timeout=left_s())
        self.assertEqual(process.returncode, 75, log)
        self.assertEqual({name: job["state"] for name, job in self.jobs().items()},
                         {"first": "stopped", "second": "waiting"})
        stopped_at = self.jobs()["first"]["samples"]
        self.assertLess(stopped_at, 1200)

        process = self.start(file, 4, "--resume")
        wait_until(lambda: self.has_checkpoint("second"), "the second one trains")
        os.kill(self.children(process.pid)[1], signal.SIGKILL)  # rank 1: the first one of the job
        _, log = process.communicate(timeout=left_s())
        self.assertNotIn(process.returncode, (0, 75), log)
        self.assertEqual(self.jobs()["first"]["state"], "budget", "what is known survives")

        done = run_ranks(4, "fleet", file, "--out", self.out(), "--resume")
        self.assertIn("1 of 2 jobs done", done.stderr)
        self.assertEqual({job["state"] for job in self.jobs().values()}, {"budget"})
        self.assertEqual(tensors(self.out() / "first"), self.alone(3, "--arch", "servers"))
        self.assertEqual(tensors(self.out() / "second"), self.alone(2, "--arch", "ring"))

    def test_a_job_that_loses_a_rank_ends_alone_or_goes_on(self):
        slow = FLEET.replace("[real]", '[real]\ninject = "rank=1,delay=25ms"')
        file = self.file(slow + "".join(
            f"[[job]]\nname = \"{name}\"\n{more}" for name, more in (
                ("server", ""), ("worker", "workers = 3\n"), ("ring", 'arch = "ring"\n'), ("large", "workers = 6\n"),
                ("small", 'arch = "ring"\nsamples = 40\neval-every-samples = 0\n'))))
        process = self.start(file, 10, mpirun=["--enable-recovery"])
        wait_until(lambda: all(self.has_checkpoint(job) for job in ("server", "worker", "ring")), "all three train")
        ranks = self.children(process.pid)
        os.kill(ranks[1], signal.SIGKILL)  # the server of the first job
        os.kill(ranks[7], signal.SIGKILL)  # the last worker of the second
        _, log = process.communicate(timeout=left_s())
        self.assertEqual((self.out() / "exit_code").read_text(encoding="utf-8"),
                         "102\n3 of 5 jobs done, 2 failed\n", log)
        jobs = self.jobs()
        self.assertEqual({name: job["state"] for name, job in jobs.items()},
                         {"server": "failed", "worker": "budget", "ring": "budget", "large": "failed",
                          "small": "budget"}, log)
        self.assertIn("has died", jobs["server"]["error"])
        self.assertRegex(jobs["large"]["error"], "it needs 7 ranks, and [0-9] are left")
        self.assertEqual(jobs["worker"]["samples"], 1200)
        done = run_ranks(10, "fleet", file, "--out", self.out(), "--resume")
        self.assertIn("3 of 5 jobs done", done.stderr)
        self.assertEqual({job["state"] for job in self.jobs().values()}, {"budget"})

    def test_jobs_of_one_host_use_no_card_and_get_no_grants(self):
        """The card is that of tests/cluster/fleet_room_test.py; here every job may have each plan that it wants."""
        text = FLEET.replace("deterministic = true\n", "").replace("[defaults]", '[fleet]\nmake-room = "shortest"\n[defaults]')
        file = self.file(text + "".join(f"[[job]]\nname = \"{name}\"\nmode = \"adaptive\"\n" for name in "ab"))
        done = run_ranks(7, "fleet", file, "--out", self.out(), "--set", "real.card=1MB/s")
        self.assertIn("without effect on real ranks: [cluster], time-as", done.stderr)
        record = json.loads((self.out() / "fleet.json").read_text(encoding="utf-8"))
        self.assertEqual({name: record["grants"][name] for name in ("granted", "returned", "list", "refused_plans")},
                         {"granted": 0, "returned": 0, "list": [], "refused_plans": []})
        self.assertEqual([job["grants"] for job in record["jobs"]], [0, 0])
        done = run_ranks(7, "fleet", file, "--out", self.out(), "--overwrite")
        self.assertIn("without effect on real ranks: [cluster], make-room (no card in [real]), time-as", done.stderr)
        self.assertNotIn("grants", json.loads((self.out() / "fleet.json").read_text(encoding="utf-8")))
        for rate in ("10", "0MB/s", "fast"):
            done = run_ranks(7, "fleet", file, "--out", self.out(), "--overwrite", "--set", f"real.card={rate}", code=2)
            self.assertIn("expected a number above 0 with kB/s, MB/s or GB/s", done.stderr)

    def test_what_cannot_run_starts_nothing(self):
        for text, words in (
                ("[[job]]\nname = \"a\"\nworkers = 3\n", "expected at most 3 ranks beside the fleet's controller"),
                ("[[job]]\nname = \"a/b\"\n", "the name cannot be that of a folder"),
                ("[[job]]\nname = \"a\"\nmode = \"asgd\"\n", "[--deterministic]")):
            done = run_ranks(4, "fleet", self.file(FLEET + text), "--out", self.out(), code=2)
            self.assertIn(words, done.stderr)
            self.assertIn("job 'a", done.stderr)
            self.assertFalse(self.out().exists())
        done = run_ranks(4, "fleet", self.file(FLEET + "[[job]]\nname = \"a\"\n"), "--out", self.out(), "--alone", "off", code=2)
        self.assertIn("[--alone] real jobs are not run alone", done.stderr)


if __name__ == "__main__":
    cli_support.main()
