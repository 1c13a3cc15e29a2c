#!/usr/bin/env python3
"""Three hosts made of network namespaces (root needed) lose rank 0: the ranks of the others go on.

    takeover_hosts_test.py COHORT [-- UNITTEST-OPTION...]

A rank that is alone on its host has nobody there who sees its process end. Its host closes its connections, which
the other hosts see at once, while a link that is down closes nothing.
"""

import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fault_support  # noqa: E402
import cli_support  # noqa: E402
from fault_support import Job, JobsTest, Mode  # noqa: E402

sys.path.insert(0, str(fault_support.ROOT / "tests/support/comm"))
from netns_hosts import Hosts, in_own_process_space, wait_until  # noqa: E402

SAMPLES = 12000
SILENCE_S = 15  # --lost-after-s by default


class TakeoverHostsTest(JobsTest):

    def check_loss(self, mode, slots, victims, servers=0, later=()):
        """Kills ranks of the first host, and one of each host of `later` once the others have gone on for a while."""
        with Hosts(3) as hosts:
            ranks = 3 * slots
            delays = ";".join(f"rank={rank},delay=20ms" for rank in range(servers, ranks))
            job = Job(cli_support.PROGRAM, self.data, self.folder / self.id().rsplit(".", 1)[-1], mode, SAMPLES,
                      start=hosts.launch(slots=slots), train=["--servers", servers, "--inject", delays], ranks=ranks)
            try:
                wait_until(lambda: len(job.events("train")) > 5, job.last_lines)
                processes = job.ranks()
                for victim in victims:
                    os.kill(processes[victim], signal.SIGKILL)
                killed_at = time.monotonic()
                wait_until(lambda: job.events("resume") or not job.running(), job.last_lines)
                seconds = time.monotonic() - killed_at
                for host in later:
                    wait_until(lambda: len(job.events("train")) > 25, job.last_lines)
                    os.kill(next(pid for pid in hosts.processes(host)
                                 if os.path.realpath(f"/proc/{pid}/exe") == str(cli_support.PROGRAM)), signal.SIGKILL)
                problems = job.problems(job.finish())
            finally:
                job.end()
        self.assertEqual(problems, [], job.last_lines())
        self.assertEqual(job.events("summary")[-1]["takeovers"], 1 + len(later))
        self.assertEqual(job.events("resume")[-1]["workers"] + job.events("resume")[-1]["servers"],
                         ranks - len(victims) - len(later))
        print(f"{self.id().rsplit('.', 1)[-1]}: the next world began {seconds:.1f} s after the loss")
        self.assertLess(seconds, SILENCE_S, "the loss was seen before its silence told")

    def test_rank_0_alone_on_its_host(self):
        self.check_loss(Mode("servers", "ssgd"), 1, [0], servers=1)

    def test_one_rank_per_host_and_two_losses(self):
        self.check_loss(Mode("ring", "ring"), 1, [0], later=[1])

    def test_rank_0_of_a_ring_beside_another(self):
        self.check_loss(Mode("ring", "ring"), 2, [0])

    def test_all_ranks_of_the_host_of_rank_0(self):
        self.check_loss(Mode("servers", "asgd"), 2, [0, 1], servers=1)


if __name__ == "__main__":
    in_own_process_space(not_root=77)  # skipped
    os.environ.pop("COHORT_PROCESS_SPACE", None)
    cli_support.main()
