#!/usr/bin/env python3
"""jobs/launch.sh with a program in place of cohort that does what a test tells it.

    launch_test.py ROOT
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from launch_support import OPEN_MPI_5, LaunchTest, left_s, running


class ExitCodes(LaunchTest):

    def test_comes_from_the_file(self):
        for code in (0, 4, 6, 75):
            with self.subTest(code=code):
                done = self.launch(f"leave({code}, 'told so')", code=code)
                self.assertEqual("told so" in done.stderr, code != 0)

    def test_file_of_an_earlier_run_does_not_count(self):
        self.out.mkdir()
        (self.out / "exit_code").write_text("5\nold\n")
        done = self.launch("sys.exit(3)", code=3)
        self.assertNotIn("old", done.stderr)
        self.launch("sys.exit(0)", code=0)
        self.assertEqual((self.out / "exit_code").read_text(), "5\nold\n")

    def test_same_text_written_again_counts(self):
        self.out.mkdir()
        (self.out / "exit_code").write_text("5\nbecause\n")
        self.launch("leave(5)", code=5)

    def test_damaged_file_is_named(self):
        done = self.launch("leave('', 'x')", code=1)
        self.assertIn("exit_code holds ''", done.stderr)

    def test_without_a_file_a_rank_that_failed_or_was_killed_counts(self):
        self.launch("sys.exit(3 if rank == 1 else 0)", code=3)
        done = self.launch("rank and os.kill(os.getpid(), signal.SIGKILL)", code=137)
        self.assertIn("rank 1 was killed by signal 9", done.stderr)
        # All ranks end well in the middle of training.
        self.launch("pathlib.Path(out).mkdir(exist_ok=True); pathlib.Path(out, 'metrics.jsonl').touch()", code=4)

    def test_a_rank_that_fails_alone_ends_the_job(self):
        before = time.monotonic()
        done = self.launch("sys.exit(127) if rank == 1 else wait_for_stop()", code=127)
        self.assertIn("a rank has failed, the others have not ended for 20 s", done.stderr)
        self.assertIn("exit code 127: rank 1 ended with it", done.stderr)
        self.assertFalse(running(int((self.folder / "ready.0").read_text())))
        self.assertGreater(time.monotonic() - before, 15)

    def test_survivors_of_a_lost_rank_go_on_for_as_long_as_they_like(self):
        before = time.monotonic()
        done = self.launch("pathlib.Path(out).mkdir(exist_ok=True)\n"
                           "if rank == 1: time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)\n"
                           "pathlib.Path(out, 'metrics.jsonl').write_text('begun')\n"
                           "time.sleep(23); leave(0)")
        self.assertEqual(done.stderr.count("launch:"), 0, done.stderr)
        self.assertGreater(time.monotonic() - before, 20)

    def test_other_commands_end_with_their_own(self):
        done = self.launch("sys.exit('because')", code=1, job=["bench", "exchange"])
        # Every rank says the word and then ends its line, so the words of two ranks may stand in one line.
        self.assertEqual(done.stderr.count("because"), 2, done.stderr)
        # Nothing else is said, and no page of mpirun's.
        self.assertEqual(done.stderr.replace("because", "").strip(), "launch: exit code 1")
        self.launch("sys.exit(0)", code=0, job=["info"])

    def test_wrong_job_options_start_no_rank(self):
        self.launch("", code=2, job=self.train("--wrong"))
        self.assertFalse((self.folder / "calls.0").exists())


class PythonPrograms(LaunchTest):
    """A script as the first word: a program that joins a job."""

    KILLED = "lose_rank_1(); leave({})"

    def test_exit_code_comes_from_the_file_and_survivors_end_by_themselves(self):
        for words in (["--out", self.out], [f"--out={self.out}"]):
            with self.subTest(words=words):
                done = self.launch(f"out = {str(self.out)!r}\n" + self.KILLED.format("4, 'told so'"), code=4,
                                   job=["job.py", *words])
                self.assertIn("told so", done.stderr)

    def test_without_out_the_exit_codes_of_the_ranks_count(self):
        self.launch("sys.exit(3 if rank == 1 else 0)", code=3, job=["job.py"])
        # One that was killed is lost; what becomes of the others, rank 0 says.
        done = self.launch("leave = sys.exit\n" + self.KILLED.format(0), job=["job.py"])
        self.assertEqual(done.stderr.count("launch:"), 0, done.stderr)
        self.launch("leave = sys.exit\n" + self.KILLED.format(75), code=137, job=["job.py"])

    def test_without_out_a_lost_rank_does_not_end_the_others(self):
        script = "leave = sys.exit\nlose_rank_1(); time.sleep(27); leave(0)"
        done = self.launch(script, job=["job.py"])
        self.assertEqual(done.stderr.count("launch:"), 0, done.stderr)

    def test_a_program_of_this_folder_is_run_by_every_rank(self):
        done = subprocess.run(self.command(["job.py"], ()), cwd=self.folder, timeout=left_s(), check=False, text=True,
                              capture_output=True, env=self.environment("", {"COHORT": self.program.name}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls(1), ["job.py"])


class Continuing(LaunchTest):

    def test_the_command_that_continues_the_run_is_told_when_there_is_a_checkpoint(self):
        self.assertNotIn("to continue", self.launch("leave(75)", code=75).stderr)
        (self.out / "checkpoints").mkdir()
        (self.out / "checkpoints/step-20.h5").touch()
        done = self.launch("leave(75)", code=75, job=self.train("--overwrite"))
        command = done.stderr.split("to continue from the newest checkpoint: ")[1]
        self.launch("leave(0)", code=0)
        environment = self.environment("leave(0)")
        del environment["COHORT"]  # the command has it
        subprocess.run(command, shell=True, check=True, timeout=left_s(), env=environment)
        self.assertEqual(self.calls()[-1], f"train --out {self.out} --resume")
        done = self.launch("leave(75)", "--launcher", "mpirun", code=75, job=self.train("--overwrite"),
                           environment={"SLURM_JOB_ID": "7"})
        self.assertIn("submit again with --resume after the file's name in place of --overwrite", done.stderr)


class Restarts(LaunchTest):

    def test_after_a_lost_rank_with_resume(self):
        self.launch("leave(4 if call < 3 else 0)", "--restarts", 5,
                    job=self.train("--overwrite", "--lr", "0.1"))
        self.assertEqual(self.calls(), [
            f"train --out {self.out} --overwrite --lr 0.1",
            f"train --out {self.out} --lr 0.1 --resume",
            f"train --out {self.out} --lr 0.1 --resume"])

    def test_resume_on_request(self):
        self.launch("leave(0)", "--resume", job=self.train("--overwrite"))
        self.assertEqual(self.calls(), [f"train --out {self.out} --resume"])

    def test_after_a_killed_rank(self):
        self.launch("call == 1 and rank == 1 and os.kill(os.getpid(), signal.SIGKILL); leave(0)"
                    " if call == 2 else sys.exit(0)", "--restarts", 1)
        self.assertEqual(len(self.calls()), 2)

    def test_at_most_so_many(self):
        done = self.launch("leave(4)", "--restarts", 1, code=4)
        self.assertEqual(len(self.calls()), 2)
        self.assertIn("0 restarts left", done.stderr)

    def test_not_after_other_endings(self):
        for code in (0, 3, 6, 75):
            with self.subTest(code=code):
                self.launch(f"leave({code})", "--restarts", 3, code=code)
                self.assertEqual(len(self.calls()), 1)
                (self.folder / "calls.0").unlink()


# In place of mpirun: keeps its words; the first time the job ends because of a lost rank.
MPIRUN = r'''#!/usr/bin/env python3
import os, pathlib, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("mpirun (Open MPI) 4.1.4"))
calls = pathlib.Path(os.environ["TEST_FOLDER"], "mpirun")
with calls.open("a") as file:
    print(repr(" ".join(sys.argv[1:])), file=file)
first = len(calls.read_text().splitlines()) == 1
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(exist_ok=True)
(out / "exit_code").write_text("4\nlost\n" if first else "0\ndone\n")
'''


class LostHosts(LaunchTest):
    """What is left of the hosts when a job starts again; those in `gone` cannot be reached."""

    def restart(self, *options, gone=()):
        (self.folder / "mpirun").unlink(missing_ok=True)
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for name, text in (("mpirun", MPIRUN),
                           ("agent", f'#!/bin/sh\ncase "$1" in {"|".join(gone) or "-"}) exit 255; '
                                     'esac\nshift\nexec "$@"\n')):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.program.write_text(self.program.read_text().replace(
            "threads = {threads}", 'threads = {threads}\\narch = "servers"\\nservers = 2'))
        done = subprocess.run(
            [self.root / "jobs/launch.sh", "--restarts", "1", "--mca", "plm_rsh_agent", "agent",
             *options, "--", *map(str, self.train())], capture_output=True, text=True, check=False,
            timeout=left_s(), env=self.environment("", {"PATH": f"{tools}:{os.environ['PATH']}"}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.messages = done.stderr
        calls = (self.folder / "mpirun").read_text().splitlines()
        self.assertEqual(len(calls), 2)
        return calls[1]

    def test_hosts_that_are_all_there_are_kept(self):
        self.assertIn("--host a:2,b:2", self.restart("--hosts", "a:2,b:2"))

    def test_lost_ones_are_left_out_with_their_ranks(self):
        line = self.restart("--hosts", "a:2,b:2,c", "-n", "10", gone=["b"])
        self.assertIn("-n 6 --host a:2,c:1", line)
        self.assertIn("cannot reach b", self.messages)

    def test_of_a_host_file_too(self):
        hostfile = self.folder / "hosts"
        hostfile.write_text("# ours\na slots=4\nb slots=4 max_slots=8\n\nlocalhost\n")
        line = self.restart("--hostfile", hostfile, gone=["a", "localhost"])
        self.assertIn("--host b:4,localhost:1", line)
        self.assertNotIn("--hostfile", line)

    def test_servers_and_one_worker_remain(self):
        line = self.restart("--hosts", "a:1,b:4", "-n", "5", gone=["b"])
        self.assertIn("-n 3 --host a:1", line)


class UnreachableHosts(LaunchTest):
    """tests/cluster/unreachable_test.py has more, for root."""

    def start_with(self, agent):
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "agent").write_text(f"#!/bin/sh\n{agent}\n")
        (tools / "agent").chmod(0o755)
        path = {"PATH": f"{tools}:{os.environ['PATH']}"}
        for job in (self.train(), ["bench", "exchange"]):
            done = self.launch("leave(0)", "--hosts", "localhost:1,far:1", "--restarts", "3",
                               "--mca", "plm_rsh_agent", "agent", code=4, job=job, environment=path)
            self.assertFalse((self.folder / "calls.0").exists())
            yield done.stderr

    def test_the_start_names_them(self):
        for said in self.start_with("exit 254"):
            self.assertIn("exit code 4: cannot reach far: agent has ended with code 254", said)

    def test_a_daemon_that_does_not_begin_is_their_fault(self):
        for said in self.start_with("exit 97"):  # of daemon.sh
            self.assertRegex(said, "cannot reach far: its (orted|prted) has ended without having reached")


class CommandLine(LaunchTest):

    def dry(self, *options, job=None, environment=None):
        done = self.launch("", "--dry-run", *options, job=job, environment=environment)
        self.assertFalse((self.folder / "calls.0").exists())
        return done.stdout.replace("\\", "")

    def test_the_agent_keeps_its_options_apart_from_host_and_command(self):
        for daemon in (" orted", "PRTE_PREFIX=/usr;export PRTE_PREFIX;/usr/bin/prted", "/usr/bin/prted"):
            done = subprocess.run([self.root / "jobs/launch/agent.sh", "-p", "22", "far", daemon, "--tree-spawn"],
                                  env={**os.environ, "COHORT_AGENT": "printf %s|"}, text=True,
                                  capture_output=True, check=True)
            self.assertEqual(done.stdout, f"-p|22|far|{daemon}|--tree-spawn|")

    def test_what_a_daemon_said_is_shown_if_it_does_not_begin(self):
        (self.folder / "prted").write_text("#!/bin/sh\necho prted: no library for $1 >&2\nexit 1\n")
        (self.folder / "here").write_text('#!/bin/sh\nexec sh -c "$2"\n')
        for tool in ("prted", "here"):
            (self.folder / tool).chmod(0o755)
        kept = self.folder / "tmp"
        kept.mkdir()
        done = subprocess.run(
            [self.root / "jobs/launch/agent.sh", "far", "PRTE_PREFIX=/usr prted", "--daemonize", "--prtemca",
             "ess_base_vpid", "1", "--prtemca", "prte_hnp_uri", '"prte-1@0.0;tcp://127.0.0.1:9"'],
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "COHORT_AGENT": "here", "TMPDIR": str(kept),
                 "COHORT_UNREACHABLE": str(self.folder / "unreachable")},
            text=True, capture_output=True, check=False, timeout=left_s())
        self.assertEqual(done.returncode, 97)
        self.assertIn("prted: no library for --daemonize", done.stderr)
        self.assertRegex((self.folder / "unreachable").read_text(), "^far its prted has ended")
        self.assertEqual(list(kept.iterdir()), [])

    def test_ranks_see_quiet_threads(self):
        self.launch("assert os.environ['OMP_WAIT_POLICY'] == 'passive'"
                    " and os.environ['OPENBLAS_NUM_THREADS'] == '1'")
        self.launch("assert os.environ['OMP_NUM_THREADS'] == '2'",
                    environment={"OMP_NUM_THREADS": "2"})

    def test_open_mpi_parameters(self):
        line = self.dry()
        for text in ("--oversubscribe", "--bind-to none", "--mca btl self,vader,tcp",
                     "--mca btl_tcp_flags 0x201", "--mca mpi_yield_when_idle 1", "--mca pml ob1",
                     "--mca osc ^rdma,ucx", "--mca plm_rsh_no_tree_spawn 1", "--enable-recovery",
                     "--mca btl_tcp_if_include lo"):
            self.assertIn(text, line)
        # Open MPI 5 does not let its daemons do with the loopback interface alone.
        self.assertEqual("--mca oob_tcp_if_include lo" in line, not OPEN_MPI_5)
        line = self.dry("--tcp-only", "--mca", "pml", "ucx", "--hosts", "a:2,b:2")
        for text in ("--mca btl self,tcp", "--mca pml ucx", "--host a:2,b:2"):
            self.assertIn(text, line)
        self.assertEqual(line.count("--mca pml"), 1)
        # An address of this host gets one slot there, its name as many as are asked for.
        for address in subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split():
            name = os.uname().nodename if OPEN_MPI_5 else address
            self.assertIn(f"--host b:2,{name}:3,c,{name} ", self.dry("--hosts", f"b:2,{address}:3,c,{address}"))

    def dry_alone(self, *options, **environment):
        """Without the test's own --interfaces; returns the command and what was said."""
        done = subprocess.run(
            [self.root / "jobs/launch.sh", "--dry-run", *options, "--", *map(str, self.train())],
            capture_output=True, text=True, check=True, env=self.environment("", environment))
        return done.stdout.replace("\\", ""), done.stderr

    def test_one_host_keeps_to_itself(self):
        for options in (["-n", "2"], ["--hosts", f"localhost:2,{os.uname().nodename}"]):
            line, said = self.dry_alone(*options)
            self.assertIn("--mca btl_tcp_if_include 127.0.0.1/8", line)
            self.assertEqual("--mca oob_tcp_if_include 127.0.0.1/8" in line, not OPEN_MPI_5)
            self.assertNotIn("keepalive", line)
            self.assertEqual(said, "")
        self.assertNotIn("127.0.0.1/8", self.dry_alone("-n", "2", PBS_JOBID="7")[0])
        self.assertNotIn("127.0.0.1/8", self.dry_alone("-n", "2", OMPI_MCA_btl_tcp_if_exclude="lo")[0])

    def test_several_hosts_want_to_know_their_networks(self):
        line, said = self.dry_alone("--hosts", "a,b")
        self.assertNotIn("tcp_if", line)
        self.assertIn("no --interfaces", said)
        self.assertIn("--mca oob_tcp_keepalive_time 120", line)
        line, said = self.dry_alone("--hosts", "a,b", "--interfaces", "10.0.0.0/24")
        self.assertIn("--mca btl_tcp_if_include 10.0.0.0/24", line)
        self.assertNotIn("NCCL", line)
        line, said = self.dry_alone("--hosts", "a,b", "--interfaces", "eth0,ib0")
        self.assertIn("-x NCCL_SOCKET_IFNAME", line)
        self.assertEqual(said, "")

    def test_other_commands_end_when_a_rank_dies(self):
        self.assertNotIn("--enable-recovery", self.dry(job=["bench", "exchange"]))

    def test_binds_only_what_fits(self):
        job = self.train("--threads", 1)
        cores = len(os.sched_getaffinity(0))
        line = self.dry("--ranks=1", job=job)
        self.assertIn("--bind-to core --map-by slot:PE=1", line)
        self.assertIn("--bind-to none", self.dry("--ranks=1", "--bind=none", job=job))
        self.assertIn("--bind-to none", self.dry(f"--ranks={cores + 1}", job=job))
        self.launch("", f"--ranks={cores + 1}", "--bind=core", job=job, code=2)
        self.launch("leave(0)", "--ranks=1", job=job)

    def test_slurm_allocation_uses_srun(self):
        tools = self.folder / "tools"
        tools.mkdir()
        srun = tools / "srun"
        srun.write_text('#!/bin/sh\n[ "$1" != --mpi=list ] || echo pmix_v4\n')
        srun.chmod(0o755)
        slurm = {"PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2",
                 "SLURM_CPUS_PER_TASK": "3"}
        line = self.dry(environment=slurm)
        self.assertRegex(line, r"^srun --mpi=pmix --ntasks=2 .*--cpus-per-task=3")
        self.assertIn("mpirun", self.dry("--launcher", "mpirun", environment=slurm))
        self.assertIn("--overcommit", self.dry("-n", "4", environment=slurm))

    def test_errors_say_what_is_wrong(self):
        for options, text in ((["-n", "0"], "takes a number of ranks, not '0'"),
                              (["--bogus"], "unknown option '--bogus'"),
                              (["--hostfile", "/nowhere"], "cannot be read"),
                              (["--bind", "core"], "needs --threads"),
                              (["--mca=pml=ob1"], "--mca takes two words"),
                              (["--restarts"], "--restarts needs a value"),
                              (["--hosts", "a", "--hostfile", "/dev/null"], "exclude each other")):
            with self.subTest(options=options):
                self.assertIn(text, self.launch("", *options, code=2).stderr)
        self.assertIn("COHORT=/nowhere", self.launch(
            "", code=2, environment={"COHORT": "/nowhere"}).stderr)

    def test_too_few_open_files(self):
        done = subprocess.run(
            ["bash", "-c", 'ulimit -n 40; exec "$@"', "bash", *self.command(self.train(), ["-n", 4])],
            capture_output=True, text=True, timeout=left_s(), check=False, env=self.environment("leave(0)"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("52 open files for 4 ranks, the limit is 40", done.stderr)
        subprocess.run(
            ["bash", "-c", 'ulimit -Sn 40; exec "$@"', "bash", *self.command(self.train(), ["-n", 4])],
            timeout=left_s(), check=True, env=self.environment("leave(0)"))

    def test_missing_mpirun(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("bash", "env", "dirname", "sed", "realpath"):
            (tools / name).symlink_to(f"/usr/bin/{name}")
        done = self.launch("", code=2, environment={"PATH": str(tools)})
        self.assertIn("mpirun is missing", done.stderr)

    def test_help(self):
        done = subprocess.run([self.root / "jobs/launch.sh", "--help"], capture_output=True, text=True,
                              check=True)
        self.assertIn("--restarts K", done.stdout)
        self.assertNotIn("set -euo", done.stdout)


if __name__ == "__main__":
    LaunchTest.root = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
