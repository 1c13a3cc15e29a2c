#!/usr/bin/env python3
"""Hosts of network namespaces, and the launcher across them.   netns_test.py"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/comm"))
from netns_hosts import Hosts, bits_per_s, in_own_process_space, left_s, wait_until  # noqa: E402

RECEIVE = r'''
import socket, sys, time
with socket.create_server(("", 7000)) as server:
    print("ready", flush=True)
    stream = server.accept()[0]
    started, count = time.monotonic(), 0  # before anything is sent, however late this process runs
    stream.sendall(b"x")
    while block := stream.recv(1 << 20):
        count += len(block)
    print(8 * count / (time.monotonic() - started))
'''
SEND = r'''
import socket, sys
with socket.create_connection((sys.argv[1], 7000)) as stream:
    stream.recv(1)
    stream.sendall(bytes(int(sys.argv[2])))
'''

# In place of cohort: rank 3, on the other host, freezes; the others report it as the job would.
PROGRAM = r'''#!/usr/bin/env python3
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if "--dump-config" in sys.argv:
    print(f'out = "{out}"')
    sys.exit(0)
rank = os.environ["OMPI_COMM_WORLD_RANK"]
(out / f"rank.{rank}").write_text(os.uname().nodename)
if rank == "3":
    time.sleep(600)
time.sleep(0.5)
if rank == "0":
    (out / "exit_code").write_text("4\nrank 3 is lost\n")
sys.exit(4)
'''

# In place of cohort: the first time rank 0 reports that the others' host is lost.
RESTARTED = r'''#!/usr/bin/env python3
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if "--dump-config" in sys.argv:
    print(f'out = "{out}"')
    sys.exit(0)
rank, resumed = os.environ["OMPI_COMM_WORLD_RANK"], "--resume" in sys.argv
(out / f"{'again' if resumed else 'first'}.{rank}").write_text(os.uname().nodename)
if rank != "0":
    time.sleep(0 if resumed else 600)
else:
    while not (resumed or (out / "killed").exists()):
        time.sleep(0.05)
    (out / "exit_code").write_text("0\ndone\n" if resumed else "4\nh1 is lost\n")
'''


class NetnsTest(unittest.TestCase):

    def rate(self, hosts, megabytes):
        """Bits per second of a stream from host 0 to host 1."""
        with subprocess.Popen([*hosts.enter(1), sys.executable, "-c", RECEIVE],
                              stdout=subprocess.PIPE, text=True) as receiver:
            self.assertEqual(receiver.stdout.readline(), "ready\n")
            hosts.run(0, sys.executable, "-c", SEND, hosts.address(1), str(megabytes * 1000000))
            return float(receiver.stdout.readline())

    def test_rates_limit_and_change_while_in_use(self):
        with Hosts(2, rate="40mbit") as hosts:
            slow = self.rate(hosts, 5)
            hosts.limit(0, "400mbit")
            fast = self.rate(hosts, 20)
            hosts.limit(0, None)
            free = self.rate(hosts, 100)
        self.assertLess(slow, 1.1 * bits_per_s("40mbit"))
        self.assertLess(fast, 1.1 * bits_per_s("400mbit"))
        self.assertGreater(fast, 1.5 * slow)
        self.assertGreater(free, fast)

    def test_own_names_and_addresses(self):
        with Hosts(3) as hosts:
            done = subprocess.run(hosts.launch("-n", "6", "--", slots=2), text=True, check=True,
                                  capture_output=True, env={**os.environ, "COHORT": "/bin/hostname"})
            self.assertEqual(sorted(done.stdout.split()), ["h0", "h0", "h1", "h1", "h2", "h2"])

    def test_what_starts_a_host_ends_and_the_job_goes_on(self):
        def starts(hosts):
            paths = (pathlib.Path(f"/proc/{pid}/cmdline") for pid in hosts.processes(0))
            words = (path.read_bytes().split(b"\0") for path in paths if path.exists())
            return any(word.endswith(b"/launch/agent.sh") for command in words for word in command[:2])

        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            out = pathlib.Path(folder)
            (out / "program").write_text(f'#!/bin/sh\ncd {folder}\ntouch begun.$OMPI_COMM_WORLD_RANK\n'
                                         'while [ ! -e end ]; do sleep 0.1; done\n')
            (out / "program").chmod(0o755)
            with subprocess.Popen(hosts.launch("-n", "2", "--", "word"), text=True, stderr=subprocess.PIPE,
                                  env={**os.environ, "COHORT": str(out / "program")}) as launcher:
                wait_until(lambda: len(list(out.glob("begun.*"))) == 2 and not starts(hosts),
                           "both ranks run, and what has started them has ended", lambda: launcher.poll() is None)
                (out / "end").touch()
                messages = launcher.communicate(timeout=left_s())[1]
            self.assertEqual(launcher.returncode, 0, messages)

    def test_nothing_is_left(self):
        hosts = Hosts(2)
        with subprocess.Popen([*hosts.enter(1), "sleep", "1000"]) as sleeper:
            wait_until(lambda: sleeper.pid in hosts.processes(1), "the program runs on h1")
            self.assertEqual(hosts.processes(0), [])
            hosts.close()
            self.assertNotEqual(sleeper.wait(timeout=left_s()), 0)
        self.assertFalse(hosts.folder.exists())

    def test_the_launcher_ends_what_a_finished_job_leaves_on_other_hosts(self):
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            program = pathlib.Path(folder) / "program"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            done = subprocess.run(
                hosts.launch("-n", "4", "--", "train", "--out", folder, slots=2), text=True,
                check=False, capture_output=True, timeout=left_s(),
                env={**os.environ, "COHORT": str(program)})
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("the job has ended, mpirun has not", done.stderr)
            self.assertIn("exit code 4: rank 3 is lost", done.stderr)
            self.assertEqual((program.parent / "rank.3").read_text(), "h1")
            self.assertEqual(hosts.processes(), [])

    def test_a_job_starts_again_on_the_hosts_that_are_left(self):
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            out = pathlib.Path(folder)
            (out / "program").write_text(RESTARTED)
            (out / "program").chmod(0o755)
            with subprocess.Popen(
                    hosts.launch("-n", "4", "--restarts", "1", "--", "train", "--out", folder,
                                 slots=2), text=True, stderr=subprocess.PIPE,
                    env={**os.environ, "COHORT": str(out / "program")}) as launcher:
                wait_until(lambda: all((out / f"first.{rank}").exists() for rank in range(4)), "all ranks begin",
                           lambda: launcher.poll() is None)
                hosts.kill(1)
                (out / "killed").touch()
                messages = launcher.communicate(timeout=left_s())[1]
            self.assertEqual(launcher.returncode, 0, messages)
            self.assertIn(f"cannot reach {hosts.address(1)}", messages)
            self.assertEqual({path.name: path.read_text() for path in out.glob("again.*")},
                             {"again.0": "h0", "again.1": "h0"})


if __name__ == "__main__":
    in_own_process_space(not_root=77)  # skipped
    unittest.main()
