#!/usr/bin/env python3
"""What a job says of its workers' load: who is slow for long and why, who only waits.

load_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import re
import statistics

import cli_support
from modes_test import Job
from cli_support import ProgramTest, events

SLEEP = ("--compute", "sleep:100ms", "--log-every-s", 0.5, "--samples", 1000000)


# An injected delay is a slow device; where many programs share this machine's processors, their
# share may explain it too.
COMPUTING = {"device", "cpu"}
LASTING = 16  # iterations until it is told


class Load(ProgramTest):
    """Mini-batches that sleep: how busy this machine is matters little."""

    def job(self, ranks, *arguments):
        """A job that runs until it is stopped."""
        return Job(self, ranks, *SLEEP, *arguments)

    def straggler(self, job, worker, event="straggler"):
        """Waits until this worker is found slow. The jobs delay it from their first mini-batch on:
        an episode is told once, and one that began because this machine was busy would be it."""
        return job.wait(lambda: [one for one in job.records(event) if one["worker"] == worker],
                        f"{event} of worker {worker}")[0]

    def windows(self, job, count):
        """`count` train records from now on."""
        have = len(job.records("train"))
        job.wait(lambda: len(job.records("train")) >= have + count, f"{count} more records")
        return job.records("train")[have:]

    def middle(self, records, name, worker):
        return statistics.median(record[name][worker] for record in records)

    def test_a_slow_worker_is_named_on_servers(self):
        job = self.job(4, "--arch", "servers", "--mode", "ssgd", "--inject",
                       "rank=2,delay=300ms")
        found = self.straggler(job, 1)
        self.assertIn(found["cause"], COMPUTING)
        self.assertFalse(found["by_lag"])
        records = self.windows(job, 4)
        self.assertTrue(COMPUTING.intersection(record["slow"][1] for record in records))
        for worker in (0, 2):  # its victims wait, and are not slow themselves
            self.assertGreater(self.middle(records, "tau_s", 1),
                               1.5 * self.middle(records, "tau_s", worker))
            self.assertGreater(self.middle(records, "wait_s", worker), 0.03)
        status = job.ctl("status").stdout
        self.assertRegex(status, "slow: (device|cpu) x")
        self.assertIn("cpu share", status)
        share = statistics.median(record["telemetry_share"] for record in records)
        self.assertGreater(share, 0)
        self.assertLess(share, 0.01)
        job.ctl("stop")
        _, _, text = job.ends("75")
        self.assertRegex(text, "worker 1 is slow: .* cause (device|cpu), for .* so far")
        self.assertRegex(text, "worker 1 was slow to the end: ")

    def test_who_arrives_last_in_a_ring_is_the_slow_one(self):
        job = self.job(3, "--mode", "ring", "--inject", "rank=1,delay=300ms")
        self.assertIn(self.straggler(job, 1)["cause"], COMPUTING)
        records = self.windows(job, 4)
        for worker in (0, 2):
            self.assertGreater(self.middle(records, "tau_s", 1),
                               1.5 * self.middle(records, "tau_s", worker))
            self.assertGreater(self.middle(records, "wait_s", worker),
                               self.middle(records, "wait_s", 1))
        job.ctl("stop")
        job.ends("75")

    def test_an_episode_ends(self):
        job = self.job(3, "--mode", "ring", "--inject", "rank=2,delay=200ms,to=12s")
        self.straggler(job, 2)
        ended = self.straggler(job, 2, event="straggler_end")
        self.assertGreater(ended["slowdown"], 1.5)
        self.assertGreater(ended["end_s"] - ended["begin_s"], 4)
        self.assertGreaterEqual(ended["iterations"], LASTING)
        job.ctl("stop")
        _, _, text = job.ends("75")
        of_worker = [event for event in (*events(job.out, "straggler"), *events(job.out, "straggler_end"))
                     if event["worker"] == 2]
        self.assertEqual(len(of_worker), 2, of_worker)
        self.assertEqual(len(re.findall("worker 2 (is|was) slow", text)), 2)

    def test_the_others_go_on_while_two_workers_are_frozen(self):
        """Long before they would be declared lost; what they push late is applied. The first plan
        goes on without one of its workers, so that two have to be overdue to change it. On a host
        whose other load has slowed workers before, the plan may be one that waits for nobody."""
        job = self.job(5, "--arch", "servers", "--mode", "adaptive", "--inject",
                       "rank=3,freeze=4s..10s;rank=4,freeze=4s..10s",
                       "--lost-after-s", 30, "--stall-limit-s", 60)
        job.until("train")
        overdue = re.compile("workers? [23]( and 3)? (is|are) .*x slower: ")

        def changed():
            return [one for one in job.records("switch") if overdue.search(one["why"])]

        def waits_for_nobody():
            newest = job.records("train")[-1]
            return 6 < newest["train_s"] < 10 and "asgd" in newest["mode"]

        job.wait(lambda: changed() or waits_for_nobody(), "a change of mode because of workers 2 and 3")
        frozen = self.windows(job, 4)
        self.assertGreater(frozen[-1]["updates"], frozen[0]["updates"] + 8)
        job.wait(lambda: job.records("train")[-1]["train_s"] >= 13, "the workers are back")
        job.ctl("stop")
        summary, _, _ = job.ends("75")
        self.assertFalse(events(job.out, "lost"))
        self.assertEqual(summary["samples_returned"] - summary["returned_stop"]
                         - summary["returned_interrupted"], 0)
        decided = [one for one in events(job.out, "decision") if overdue.search(one["reason"])]
        self.assertTrue(decided or not changed())
        for one in decided[:1]:
            self.assertTrue({2, 3}.intersection(one["stragglers"]), one)

    def test_a_lost_worker_has_no_load(self):
        job = self.job(4, "--arch", "servers", "--mode", "ssgd", "--inject",
                       "rank=3,delay=300ms;rank=3,kill=12s")
        self.straggler(job, 2)
        job.until("lost")
        self.straggler(job, 2, event="straggler_end")
        record = self.windows(job, 2)[-1]
        self.assertIsNone(record["tau_s"][2])
        self.assertIsNone(record["slow"][2])
        job.ctl("stop")
        job.ends("75")


if __name__ == "__main__":
    cli_support.main()
