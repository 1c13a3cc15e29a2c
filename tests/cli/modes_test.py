#!/usr/bin/env python3
"""Modes that change while a job runs: by schedule, on request; workers that leave; mini-batches
that only take time.

modes_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import json
import os
import subprocess

import cli_support
from cli_support import ProgramTest, events, left_s, run, wait_until

LEAVE_S = 20  # for a job that a failed test leaves behind, before it is killed


class Job:
    """A training job in the background."""

    def __init__(self, test, ranks, *arguments):
        self.out = test.out()
        command = [*cli_support.MPIRUN, "--enable-recovery", "-n", ranks, cli_support.PROGRAM, "train",
                   "--data", test.data, "--out", self.out, "--model", "softmax", "--batch", 10, "--threads", 1,
                   "--checkpoint-every-s", 0, *arguments]
        self.process = subprocess.Popen([str(word) for word in command], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        self.text = ""
        test.addCleanup(self.kill)

    def kill(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.communicate(timeout=LEAVE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if not self.process.stdout.closed:
            self.text = self.process.communicate()[0]

    def records(self, event):
        """Those of this kind so far."""
        return events(self.out, event) if (self.out / "metrics.jsonl").exists() else []

    def wait(self, condition, what):
        """Waits for something that the job brings about; what it said when it does not."""
        def said():
            self.kill()
            return f"{what}\n{self.text}"
        return wait_until(condition, said, lambda: self.process.poll() is None)

    def until(self, event):
        """Waits for a record of this kind."""
        return self.wait(lambda: self.records(event), event)[0]

    def ends(self, status="0"):
        """Waits for the end; the summary, whose accounts must add up."""
        text, _ = self.process.communicate(timeout=left_s())
        code = (self.out / "exit_code").read_text().splitlines()
        assert code[0] == status, f"{code}\n{text}"
        summary = events(self.out, "summary")[-1]
        assert summary["samples_leased"] == (summary["samples_applied"]
                                             + summary["samples_returned"]), summary
        assert summary["samples_outstanding"] == 0, summary
        assert sum(worker["samples"] for worker in summary["by_worker"]) == (
            summary["samples_applied"] - self.before()), summary
        return summary, code[1], text

    def before(self):
        """Samples applied before this part."""
        resumed = events(self.out, "resume")
        return resumed[-1]["samples_applied"] if resumed else 0

    def ctl(self, *words, code=0):
        return run("ctl", "--out", self.out, "--timeout-s", f"{left_s():.0f}", *words, code=code)


class Modes(ProgramTest):

    def test_a_schedule_is_followed_and_resumed_in_the_right_entry(self):
        modes = ("--arch", "servers", "--mode-schedule", "0:ssgd,400:static:2,900:asgd")
        summary, _, _ = Job(self, 4, *modes, "--samples", 600, "--checkpoint-every-samples",
                            600).ends()
        self.assertEqual([(one["from"], one["to"], one["why"]) for one
                          in events(self.out(), "switch")], [("ssgd", "static:2", "schedule")])
        self.assertGreaterEqual(events(self.out(), "switch")[0]["samples_applied"], 400)
        self.assertEqual(summary["mode"], "static:2")
        summary, _, text = Job(self, 4, *modes, "--samples", 1500, "--resume").ends()
        self.assertIn("mode static:2 -> asgd", text)
        self.assertEqual([one["to"] for one in events(self.out(), "switch")], ["static:2", "asgd"])
        self.assertEqual((summary["mode"], summary["switches"]), ("asgd", 1))
        self.assertEqual(summary["samples_applied"], 1500)

    def test_requests_change_the_mode_and_stop_the_job(self):
        job = Job(self, 4, "--arch", "servers", "--mode", "ssgd", "--compute", "sleep:20ms",
                  "--samples", 1000000, "--log-every-s", 0.2)
        job.until("train")
        self.assertIn("3 of 3 workers live", job.ctl("status").stdout)
        status = json.loads(job.ctl("status", "--json").stdout)
        self.assertEqual((status["mode"], status["live"], status["budget_samples"]), ("ssgd", 3, 1000000))
        self.assertEqual([(one["worker"], one["rank"], one["live"]) for one in status["workers"]],
                         [(0, 1, True), (1, 2, True), (2, 3, True)])
        watch = subprocess.Popen(list(map(str, [cli_support.PROGRAM, "ctl", "--out", job.out, "status", "--json",
                                                "--watch", 0.2])), stdout=subprocess.PIPE, text=True)
        self.addCleanup(watch.kill)
        self.check_views(job)
        self.assertIn("asgd@0.5 follows ssgd", job.ctl("mode", "asgd@0.5").stdout)
        switch = job.until("switch")
        self.assertEqual((switch["from"], switch["to"], switch["why"]),
                         ("ssgd", "asgd@0.5", "request"))
        self.assertIn("mode asgd@0.5", job.ctl("status").stdout)
        self.assertIn("static", job.ctl("mode", "static:9", code=2).stderr)
        job.ctl("faster", code=2)
        self.assertIn("status 75", job.ctl("stop").stdout)
        summary, _, _ = job.ends("75")
        self.assertEqual((summary["stop_reason"], summary["switches"]), ("signal", 1))
        self.assertFalse((job.out / "ctl").exists())
        self.assertIn("no job listens", job.ctl("status", code=3).stderr)
        lines = watch.communicate(timeout=left_s())[0].splitlines()
        self.assertEqual(watch.returncode, 0)
        self.assertIn("ssgd", {json.loads(line)["mode"] for line in lines})
        ended = run("top", "--out", job.out).stdout
        self.assertRegex(ended.splitlines()[0], "mode asgd@0.5  .* stopped ")
        self.assertIn("ssgd -> asgd@0.5: request", ended)
        self.assertIn("stopped</b> after", (job.out / "live.html").read_text())

    def check_views(self, job):
        """What `top` and live.html tell of the running job, without a request to it."""
        shown = run("top", "--once", "--out", job.out).stdout
        self.assertRegex(shown.splitlines()[0], "^softmax  servers, mode ssgd  .* running 0:")
        self.assertIn("3 workers live", shown)
        self.assertIn("nothing is learned: --compute sleep:20ms", shown)
        self.assertRegex(shown, r"(?m)^     2  \w+ +#+\.* +\d+ % ")
        self.assertLessEqual(max(map(len, shown.splitlines())), 80)
        page = (job.out / "live.html").read_text()
        self.assertIn('http-equiv="refresh"', page)
        self.assertIn("mode ssgd", page)

    def test_sleeping_in_place_of_the_network_is_labelled_everywhere(self):
        job = Job(self, 3, "--mode", "ring", "--compute", "sleep:5ms", "--samples", 300)
        summary, _, text = job.ends()
        self.assertEqual(events(job.out, "start")[0]["compute"], "sleep:5ms")
        self.assertEqual(summary["compute"], "sleep:5ms")
        self.assertIsNone(summary["test_accuracy"])
        self.assertGreaterEqual(summary["compute_s"], 0.004)
        self.assertFalse((job.out / "model.h5").exists())
        self.assertIn("NO TRAINING", text)
        self.assertIn("[sleep:5ms]  100.0 %", text)
        self.assertIn("nothing was learned", text)

    def check_a_killed_worker(self, *modes):
        job = Job(self, 4, *modes, "--compute", "sleep:20ms", "--samples", 3000, "--inject",
                  "rank=3,kill=0.5s")
        self.assertEqual(job.until("lost")["rank"], 3)
        summary, reason, text = job.ends()
        self.assertEqual((summary["samples_applied"], summary["lost"]), (3000, 1), text)
        self.assertIn("rank 3", summary["losses"])
        self.assertIn("rank 3", reason)
        self.assertEqual([one["live"] for one in summary["by_worker"]].count(False), 1)

    def test_a_killed_worker_is_left_behind_on_servers(self):
        self.check_a_killed_worker("--arch", "servers", "--mode", "ssgd")

    def test_a_killed_worker_is_left_behind_on_a_ring(self):
        self.check_a_killed_worker("--mode", "ring")

    def test_more_losses_than_allowed_end_the_job(self):
        job = Job(self, 4, "--arch", "servers", "--mode", "asgd", "--compute", "sleep:20ms",
                  "--samples", 1000000, "--max-lost", 1, "--inject",
                  "rank=3,kill=0.5s;rank=2,kill=1s")
        text, _ = job.process.communicate(timeout=left_s())
        code = (job.out / "exit_code").read_text().splitlines()
        self.assertEqual(code[0], "4", text)
        self.assertIn("--max-lost", code[1])
        for rank in ("rank 2", "rank 3"):
            self.assertIn(rank, code[1])
        self.assertEqual(events(job.out)[-1]["event"], "error")


if __name__ == "__main__":
    cli_support.main()
