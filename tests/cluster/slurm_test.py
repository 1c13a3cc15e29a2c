#!/usr/bin/env python3
"""slurm/train.sbatch on a real Slurm of two nodes on this machine.   slurm_test.py COHORT ROOT"""

import os
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import cli_support  # noqa: E402
from slurm_cluster import SlurmCluster, in_own_process_space  # noqa: E402

ROOT = None

# In place of cohort: says who it is; with USR1 it ends as after a checkpoint, once resumed well.
PROGRAM = r'''#!/usr/bin/env python3
import os, pathlib, signal, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if "--dump-config" in sys.argv:
    print(f'out = "{out}"')
    sys.exit(0)
rank = os.environ["PMIX_RANK"]
out.mkdir(exist_ok=True)

def leave(code):
    if rank == "0":
        (out / "exit_code.new").write_text(f"{code}\nby a test\n")
        (out / "exit_code.new").rename(out / "exit_code")
    sys.exit(code)

signal.signal(signal.SIGUSR1, lambda *_: leave(75))
(out / f"rank.{rank}").write_text(f"{os.uname().nodename} {' '.join(sys.argv[1:])}")
if "--resume" in sys.argv or "--short" in sys.argv:
    leave(int(os.environ.get("CODE", "0")))
time.sleep(600)
'''


class SlurmTest(cli_support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = SlurmCluster(nodes=2)
        cls.addClassCleanup(cls.slurm.close)
        cls.fake = cls.folder / "program"
        cls.fake.write_text(PROGRAM)
        cls.fake.chmod(0o755)

    def submit(self, *arguments, program=None, options=(), **variables):
        """Submits the template for two ranks on each node; returns the job's number."""
        log = self.folder / "job-%j.log"
        done = self.slurm.run(
            "sbatch", "--parsable", f"--output={log}", "--nodes=2", "--ntasks-per-node=2",
            "--time=10", *options, ROOT / "slurm/train.sbatch", "--out", self.out(), *arguments,
            capture_output=True, text=True, cwd=ROOT,
            env={"COHORT": str(program or self.fake), **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout)

    def log(self, number):
        path = self.folder / f"job-{number}.log"
        return path.read_text() if path.exists() else "(no output yet)"

    def check_ends(self, number, state, code):
        ended = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT")
        job = self.slurm.wait_for_job(number, ended)
        self.assertEqual((job["JobState"], job["ExitCode"]), (state, f"{code}:0"),
                         self.log(number) + self.slurm.logs())

    def wait_until(self, condition, number):
        cli_support.wait_until(condition, lambda: f"{self.log(number)}{self.slurm.logs()}")

    def wait_for_ranks(self, number):
        self.wait_until(lambda: len(list(self.out().glob("rank.*"))) == 4, number)

    def wait_for_event(self, number, event):
        metrics = self.out() / "metrics.jsonl"
        self.wait_until(lambda: metrics.exists() and f'"{event}"' in metrics.read_text(), number)

    def stop_and_start_again(self, number):
        """What Slurm does ahead of the time limit, without its two minutes in the queue."""
        self.slurm.output("scancel", "--batch", "--signal=USR1", number)
        self.slurm.wait_for_job(number, ("PENDING",))
        # Nodes refuse a job in the second in which they ended it: times there are whole seconds.
        time.sleep(2)
        self.slurm.output("scontrol", "update", f"JobId={number}", "StartTime=now")


class Template(SlurmTest):
    """With a program in place of cohort."""

    def test_two_ranks_on_each_node(self):
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                number = self.submit("--short", "--lr", "0.1",
                                     COHORT_LAUNCH_OPTIONS=f"--launcher {launcher}")
                self.check_ends(number, "COMPLETED", 0)
                told = sorted(path.read_text() for path in self.out().glob("rank.*"))
                words = f"train --out {self.out()} --short --lr 0.1"
                self.assertEqual(told, [f"h{node} {words}" for node in (0, 0, 1, 1)])
                for path in self.out().glob("rank.*"):
                    path.unlink()

    def test_exit_code_is_the_job_s(self):
        number = self.submit("--short", CODE="6")
        self.check_ends(number, "FAILED", 6)
        self.assertIn("exit code 6: by a test", self.log(number))

    def test_ahead_of_the_time_limit_back_into_the_queue(self):
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                number = self.submit("--overwrite",
                                     COHORT_LAUNCH_OPTIONS=f"--launcher {launcher}")
                self.wait_for_ranks(number)
                self.stop_and_start_again(number)
                self.check_ends(number, "COMPLETED", 0)
                self.assertIn("back into the queue", self.log(number))
                self.assertTrue((self.out() / "rank.3").read_text().endswith(
                    f"train --out {self.out()} --resume"))
                for path in self.out().glob("rank.*"):
                    path.unlink()

    def test_cancelled_is_not_put_back(self):
        number = self.submit()
        self.wait_for_ranks(number)
        self.slurm.output("scancel", number)
        self.slurm.wait_for_job(number, ("CANCELLED",))
        self.assertNotIn("back into the queue", self.log(number))

    def test_wrong_folder_is_named(self):
        number = self.submit(COHORT_ROOT="/nowhere")
        self.check_ends(number, "FAILED", 2)
        self.assertIn("there is no /nowhere/jobs/launch.sh", self.log(number))


class Training(SlurmTest):
    """With cohort, four ranks on two nodes."""

    JOB = ("--model", "smallcnn", "--batch", "10", "--threads", "1", "--deterministic")

    def check_summary(self, number, samples, workers, servers):
        self.check_ends(number, "COMPLETED", 0)
        summary = cli_support.events(self.out(), "summary")[-1]
        self.assertEqual(
            (summary["samples_applied"], summary["workers"], summary["servers"]),
            (samples, workers, servers), self.log(number))
        self.assertTrue((self.out() / "model.h5").exists())

    def submit_training(self, *arguments, **variables):
        return self.submit("--data", self.data, *self.JOB, *arguments,
                           program=cli_support.PROGRAM, **variables)

    def test_ring_by_srun(self):
        number = self.submit_training("--arch", "ring", "--epochs", "2")
        self.check_summary(number, 1200, workers=4, servers=0)

    def test_servers_by_mpirun(self):
        number = self.submit_training("--arch", "servers", "--servers", "1", "--epochs", "2",
                                      COHORT_LAUNCH_OPTIONS="--launcher mpirun")
        self.check_summary(number, 1200, workers=3, servers=1)

    def test_a_killed_worker_does_not_end_the_job(self):
        """mpirun lets the others go on; srun's PMIx ends the step, which the launcher starts again."""
        slow = ";".join(f"rank={rank},cpu=0.02" for rank in range(4))
        for launcher in ("mpirun", "srun"):
            with self.subTest(launcher=launcher):
                number = self.submit_training(
                    "--arch", "ring", "--samples", 20000, "--log-every-s", "0.1", "--inject", slow,
                    "--lost-after-s", 5, "--checkpoint-every-samples", 1000,
                    COHORT_LAUNCH_OPTIONS=f"--launcher {launcher} --restarts 1")
                self.wait_for_event(number, "checkpoint")
                victim = next(pid for pid in self.slurm.hosts.processes(1)
                              if os.path.realpath(f"/proc/{pid}/exe") == str(cli_support.PROGRAM))
                os.kill(victim, signal.SIGKILL)
                self.check_summary(number, 20000, workers=4, servers=0)
                self.assertEqual("starting again" in self.log(number), launcher == "srun",
                                 self.log(number))
                if launcher == "mpirun":
                    self.assertEqual(len(cli_support.events(self.out(), "lost")), 1)
                shutil.rmtree(self.out())

    def test_goes_on_after_the_time_limit(self):
        samples = 6000  # six seconds at least, most of them asleep
        number = self.submit_training("--arch", "ring", "--samples", samples, "--log-every-s", "0.01",
                                      "--inject", "rank=1,delay=40ms")
        self.wait_for_event(number, "train")
        self.stop_and_start_again(number)
        self.check_summary(number, samples, workers=4, servers=0)
        self.assertTrue(cli_support.events(self.out(), "resume"), self.log(number))


if __name__ == "__main__":
    in_own_process_space(not_root=77)  # skipped
    ROOT = pathlib.Path(sys.argv.pop(2)).resolve()
    os.environ.pop("COHORT", None)
    cli_support.main()
