#!/usr/bin/env python3
"""Jobs that lose rank 0 or a server: the ranks that are left form another world and go on from the newest state that
they hold in memory.

    takeover_test.py COHORT [-- UNITTEST-OPTION...]
"""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fault_support  # noqa: E402, F401  (the path of what follows)
import cli_support  # noqa: E402
from cli_support import run, tensors, wait_until  # noqa: E402
from fault_support import Job, JobsTest, Mode  # noqa: E402

SSGD, RING = Mode("servers", "ssgd"), Mode("ring", "ring")
SAMPLES = 12000
# Mini-batches of ten samples that take 10 ms and more: four workers need three seconds at least.
DELAY = "10ms"


def delays(ranks):
    return ["--inject", ";".join(f"rank={rank},delay={DELAY}" for rank in ranks)]


class TakeoverTest(JobsTest):

    def job(self, mode, ranks, *train, servers=0, launch=()):
        words = ["--servers", servers, *delays(range(servers, ranks)), "--lost-after-s", 5,
                 *([] if "--mirror-every-s" in train else ["--mirror-every-s", 0.05]), *train]
        job = Job(cli_support.PROGRAM, self.data, self.folder / self.id().rsplit(".", 1)[-1], mode, SAMPLES, launch=launch,
                  train=words, ranks=ranks)
        self.addCleanup(job.end)
        return job

    def applied(self, job):
        """Samples by the newest `train` record."""
        return (job.events("train") or [{"samples_applied": 0}])[-1]["samples_applied"]

    @staticmethod
    def trained_after_takeovers(job, count):
        """For some time since the last of them."""
        kinds = [record["event"] for record in job.events()]
        return kinds.count("resume") == count and kinds[len(kinds) - kinds[::-1].index("resume"):].count("train") > 2

    def kill(self, job, *ranks, after=SAMPLES // 4, how=signal.SIGKILL):
        """Kills, or freezes, ranks by their numbers at first, once so many samples are applied."""
        wait_until(lambda: self.applied(job) >= after, job.last_lines, job.running)
        processes = job.ranks()
        for rank in ranks:
            os.kill(processes[rank], how)

    def check_end(self, job, takeovers):
        problems = job.problems(job.finish())
        self.assertEqual(problems, [], job.last_lines())
        self.assertNotIn("starting again", job.log())
        self.assertEqual(job.events("summary")[-1]["takeovers"], takeovers, job.last_lines())

    def test_the_bits_are_those_of_the_run_without_the_loss(self):
        """Servers only add up what three workers send, so the run is the same with one server as with two."""
        whole = self.job(SSGD, 5, "--deterministic", servers=2)
        self.check_end(whole, 0)
        expected = tensors(whole.out)
        for victims in (0,), (1,):
            with self.subTest(victims=victims):
                job = self.job(SSGD, 5, "--deterministic", servers=2)
                self.kill(job, *victims)
                self.check_end(job, 1)
                self.assertEqual(job.events("resume")[-1]["servers"], 1)
                self.assertEqual(job.events("resume")[-1]["workers"], 3)
                self.assertEqual(tensors(job.out), expected)

    def test_a_ring_goes_on_without_rank_0(self):
        job = self.job(RING, 4)
        self.kill(job, 0)
        self.check_end(job, 1)
        (resume,) = job.events("resume")
        self.assertRegex(resume["after_loss"], r"^rank 0 \(host \S+, pid \d+\) has died$")
        self.assertEqual(resume["workers"], 3)
        self.assertGreaterEqual(resume["samples_applied"], SAMPLES // 8, "from the newest state, not from the start")
        run("report", job.out)
        self.assertIn("has died, and the others went on from",
                      (job.out / "report.html").read_text(encoding="utf-8"))

    def test_one_loss_after_the_other(self):
        """Rank 0, then the rank that had become rank 0, then a worker, which needs no new world."""
        job = self.job(SSGD, 6, servers=1)
        self.kill(job, 0, after=SAMPLES // 8)
        wait_until(lambda: self.trained_after_takeovers(job, 1), job.last_lines, job.running)
        self.kill(job, 1, after=0)
        wait_until(lambda: self.trained_after_takeovers(job, 2), job.last_lines, job.running)
        self.kill(job, 5, after=SAMPLES // 2)
        self.check_end(job, 2)
        self.assertRegex(job.events("resume")[-1]["after_loss"], r"^rank 0 \(rank 1 at first, ")
        self.assertEqual(job.events("summary")[-1]["lost"], 1)

    def test_two_ranks_at_once(self):
        job = self.job(SSGD, 6, servers=2)
        self.kill(job, 0, 1)
        self.check_end(job, 1)

    def test_a_frozen_rank_0_is_ended(self):
        job = self.job(RING, 3)
        self.kill(job, 0, how=signal.SIGSTOP)
        self.check_end(job, 1)
        self.assertRegex(job.events("resume")[-1]["after_loss"], "nothing was heard of it for .* s, it was ended$|has died$")

    def test_a_frozen_server_is_left_behind(self):
        job = self.job(SSGD, 5, servers=2)
        self.kill(job, 1, how=signal.SIGSTOP)
        self.check_end(job, 1)
        self.assertEqual(job.events("resume")[-1]["servers"], 1)

    def test_without_copies_it_goes_on_from_a_checkpoint(self):
        job = self.job(RING, 3, "--mirror-every-s", 0, "--checkpoint-every-samples", 1000)
        self.kill(job, 0)
        self.check_end(job, 1)
        self.assertEqual(job.events("resume")[-1]["samples_applied"] % 1000 // 100, 0, "a checkpoint's samples")

    def test_without_either_it_begins_anew(self):
        job = self.job(RING, 3, "--mirror-every-s", 0)
        self.kill(job, 0)
        self.check_end(job, 1)
        (start,) = job.events("start")
        self.assertIn("has died", start["after_loss"])

    def check_that_it_ends(self, job, reason):
        self.assertEqual(job.finish(), 4, job.last_lines())
        code, why = (job.out / "exit_code").read_text(encoding="utf-8").splitlines()
        self.assertEqual(code, "4")
        self.assertRegex(why, reason)

    def test_too_few_are_left(self):
        job = self.job(SSGD, 2, servers=1)
        self.kill(job, 0)
        self.check_that_it_ends(job, "rank 0 .* has died; 1 rank is left, too few for 1 server and a worker")

    def test_no_more_than_max_lost(self):
        job = self.job(RING, 4, "--max-lost", 1)
        self.kill(job, 0, 2)
        self.check_that_it_ends(job, "more ranks are lost than --max-lost allows|has died")

    def test_no_loss_is_survived_with_max_lost_0(self):
        job = self.job(RING, 3, "--max-lost", 0)
        self.kill(job, 0)
        self.check_that_it_ends(job, "rank 0 .* has died")


if __name__ == "__main__":
    cli_support.main()
