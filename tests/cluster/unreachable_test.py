#!/usr/bin/env python3
"""The launcher and hosts that cannot be reached: at the start, at a restart, and cut off while a job
runs. Prints how long each case took.   unreachable_test.py"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/comm"))
from netns_hosts import Hosts, in_own_process_space, left_s, wait_until  # noqa: E402

CHECK = unittest.TestCase()

# In place of cohort: notes which rank runs where. In start N rank 0 waits while there is a file
# wait.N, then leaves what leave.N says; the others end after it.
PROGRAM = r'''#!/usr/bin/env python3
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if "--dump-config" in sys.argv:
    print(f'out = "{out}"')
    sys.exit(0)
rank = os.environ["OMPI_COMM_WORLD_RANK"]
if rank == "0":
    with (out / "starts").open("a") as file:
        file.write("start\n")
start = len((out / "starts").read_text().splitlines()) if rank == "0" else 0
(out / f"rank.{rank}.{os.uname().nodename}").write_text("begun")
code = out / "exit_code"
before = code.exists() and code.stat().st_mtime_ns
begun = f"begun.{os.environ['PMIX_NAMESPACE'].replace('/', '_')}"
(out / f"{begun}.{rank}").touch()
while rank != "0" and (code.exists() and code.stat().st_mtime_ns) == before:
    time.sleep(0.05)
if rank != "0":
    sys.exit(0)
while len(list(out.glob(f"{begun}.*"))) < int(os.environ["OMPI_COMM_WORLD_SIZE"]):
    time.sleep(0.05)
while (out / f"wait.{start}").exists():
    time.sleep(0.05)
left = out / f"leave.{start}"
(out / "exit_code.new").write_text(left.read_text() if left.exists() else "0\ndone\n")
(out / "exit_code.new").rename(code)
'''

# In place of cohort: the ranks of host h1 leave one after the other once they are cut off, or stay
# silent if there is a file `silent`; rank 0 goes on.
CUT_OFF = r'''#!/usr/bin/env python3
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if "--dump-config" in sys.argv:
    print(f'out = "{out}"\nstall-limit-s = 5')
    sys.exit(0)
rank, host = os.environ["OMPI_COMM_WORLD_RANK"], os.uname().nodename
(out / f"begun.{rank}").touch()
if host == "h1":
    while not (out / "cut").exists() or (out / "silent").exists():
        time.sleep(0.05)
    time.sleep(2 if rank == "2" else 12)
    (out / f"left.{rank}").touch()
    sys.exit(f"rank {rank} is cut off") if rank == "2" else print("cut off", flush=True)
    sys.exit(4)
(out / "metrics.jsonl").write_text("begun")
while not (out / "end").exists():
    time.sleep(0.05)
if rank == "0":
    (out / "exit_code").write_text("0\ndone\n")
'''

# How a host is lost, with what the launcher says of it.
LOSSES = {
    "the agent fails": (lambda hosts: hosts.agent_fails(1, "gone"), "has ended with code 255"),
    "the agent hangs": (lambda hosts: hosts.agent_fails(1, "mute"), "has not done its part"),
    "link down": (lambda hosts: hosts.link(1, False), "its (orted|prted) .* mpirun"),
    "packets vanish": (lambda hosts: hosts.swallow(1), "its (orted|prted) .* mpirun"),
}


class Job:
    """A job on three hosts with two ranks each."""

    def __init__(self, program, *options):
        self._folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self._folder.name)
        self.hosts = Hosts(3)
        (self.out / "program").write_text(program)
        (self.out / "program").chmod(0o755)
        self.options = options
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.hosts.close()
        self._folder.cleanup()

    def start(self):
        self.process = subprocess.Popen(
            self.hosts.launch("-n", "6", *self.options, "--", "train", "--out", str(self.out),
                              slots=2),
            text=True, stderr=subprocess.PIPE,
            env={**os.environ, "COHORT": str(self.out / "program")})

    def begun(self, *hosts):
        """Waits until all ranks of these hosts have begun; forgets it then."""
        try:
            wait_until(lambda: all(len(list(self.out.glob(f"rank.*.h{host}"))) == 2 for host in hosts),
                       f"ranks begin on {hosts}", lambda: self.process.poll() is None)
        except AssertionError as error:
            begun = sorted(path.name for path in self.out.glob("rank.*"))
            self.process.terminate()
            messages = self.process.communicate()[1]
            self.process = None
            raise AssertionError(f"{error}; begun: {begun}; messages: {messages}") from None
        for path in self.out.glob("rank.*"):
            path.unlink()

    def end(self, code):
        messages = self.process.communicate(timeout=left_s())[1]
        if self.process.returncode != code:
            raise AssertionError(f"code {self.process.returncode}, not {code}: {messages}")
        return messages

    def nothing_left(self, *hosts):
        for host in hosts:
            wait_until(lambda host=host: not self.hosts.processes(host),
                       f"nothing is left on h{host}")


def lose_at_the_start(lose, text):
    with Job(PROGRAM, "--restarts", "2") as job:
        lose(job.hosts)
        before = time.monotonic()
        job.start()
        messages = job.end(4)
        took = time.monotonic() - before
        CHECK.assertRegex(messages, f"cannot reach {job.hosts.address(1)}: .*{text}")
        CHECK.assertNotIn("starting again", messages)
        CHECK.assertFalse((job.out / "starts").exists())
        job.nothing_left(0, 1, 2)
        return took


def lose_at_a_restart(lose, _):
    with Job(PROGRAM, "--restarts", "1") as job:
        (job.out / "leave.1").write_text("4\nrank 3 is lost\n")
        (job.out / "wait.1").touch()
        job.start()
        job.begun(0, 1, 2)
        lose(job.hosts)
        before = time.monotonic()
        (job.out / "wait.1").unlink()
        job.begun(0, 2)
        took = time.monotonic() - before
        messages = job.end(0)
        CHECK.assertIn(f"cannot reach {job.hosts.address(1)}: going on with", messages)
        CHECK.assertEqual(messages.count("starting again"), 1)
        return took


def come_back():
    with Job(PROGRAM, "--restarts", "2") as job:
        for start in (1, 2):
            (job.out / f"leave.{start}").write_text("4\na rank is lost\n")
            (job.out / f"wait.{start}").touch()
        job.start()
        job.begun(0, 1, 2)
        job.hosts.agent_fails(1, "gone")
        (job.out / "wait.1").unlink()
        job.begun(0, 2)
        job.hosts.agent_fails(1, None)
        before = time.monotonic()
        (job.out / "wait.2").unlink()
        job.begun(0, 1, 2)
        took = time.monotonic() - before
        job.end(0)
        return took


def cut_off(silent):
    with Job(CUT_OFF) as job:
        if silent:
            (job.out / "silent").touch()
        job.start()
        wait_until(lambda: len(list(job.out.glob("begun.*"))) == 6, "all begin")
        job.hosts.swallow(1)
        before = time.monotonic()
        (job.out / "cut").touch()
        job.nothing_left(1)
        took = time.monotonic() - before
        CHECK.assertEqual((job.out / "left.3").exists(), not silent)
        if silent and shutil.which("prte_info"):  # mpirun of Open MPI 5 ends a job whose daemon it has lost
            CHECK.assertIn("exit code 4: mpirun has ended the job in its middle", job.end(4))
            job.nothing_left(0, 2)
            return took
        CHECK.assertGreaterEqual(len(job.hosts.processes(2)), 3)
        (job.out / "end").touch()
        CHECK.assertIn("ending it", job.end(0))
        job.nothing_left(0, 2)
        return took


class UnreachableTest(unittest.TestCase):
    """All cases run at once, most of their time is waiting."""

    @classmethod
    def setUpClass(cls):
        cls.pool = concurrent.futures.ThreadPoolExecutor(16)
        cls.addClassCleanup(cls.pool.shutdown)
        cls.runs = {name: cls.pool.submit(*case) for name, case in {
            **{f"at the start, {how}": (lose_at_the_start, *loss) for how, loss in LOSSES.items()},
            **{f"at a restart, {how}": (lose_at_a_restart, *loss) for how, loss in LOSSES.items()},
            "back again": (come_back,), "cut off, ranks leave": (cut_off, False),
            "cut off, ranks are silent": (cut_off, True)}.items()}

    def check(self, begin):  # prints the seconds
        for name, run in self.runs.items():
            if name.startswith(begin):
                with self.subTest(name):
                    print(f"{name}: {run.result():.1f} s", file=sys.stderr)

    def test_the_start_ends_with_code_4_and_names_the_host(self):
        self.check("at the start")

    def test_a_restart_leaves_the_host_out(self):
        self.check("at a restart")

    def test_a_host_that_is_back_is_used_again(self):
        self.check("back again")

    def test_no_daemon_stays_on_a_host_that_is_cut_off_and_none_ends_early(self):
        self.check("cut off")


if __name__ == "__main__":
    in_own_process_space(not_root=77)  # skipped
    unittest.main()
