#!/usr/bin/env python3
"""PyTorch modules on many ranks.   torch_test.py COHORT MPIRUN MPIRUN-OPTION... [-- UNITTEST-OPTION...]"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import torch_support
from torch_support import ATTACH, JOB, LAUNCH, LOOP, MPIRUN, SERVERS, TorchTest, left_s, wait_until

import h5py
import numpy
import torch
import train_job

import cohort


class Sums(TorchTest):

    def check_against_one_process(self, ranks, first_worker, updates, **options):
        """Parameters and batch norm after some updates, against float64 on one process."""
        workers = ranks - first_worker
        summary, _ = self.run_job(ranks, samples=updates * workers * 8, mode="ssgd", **options)
        self.assertEqual(summary["updates"], updates)
        net = train_job.network(1).double()  # rank 0's initial values
        x, y = train_job.data()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        norm = net[3]
        for update in range(updates):
            optimizer.zero_grad()
            before = [norm.running_mean.clone(), norm.running_var.clone()]
            after = [torch.zeros_like(each) for each in before]
            for worker in range(workers):
                ids = self.leases(first_worker + worker)[update]
                self.assertEqual(len(ids), 8)
                norm.running_mean.copy_(before[0])
                norm.running_var.copy_(before[1])
                (train_job.loss_of(net, x[ids].double(), y[ids]) / workers).backward()
                after[0] += norm.running_mean / workers
                after[1] += norm.running_var / workers
            norm.running_mean.copy_(after[0])
            norm.running_var.copy_(after[1])
            optimizer.step()
        trained = cohort.torch.load(train_job.network(7), self.out + "/model.h5")
        for (name, expected), got in zip(
                [*net.named_parameters(), *net.named_buffers()],
                [*trained.parameters(), *trained.buffers()]):
            if expected.is_floating_point():
                error = (got.double() - expected).norm() / expected.norm()
                self.assertLess(error.item(), 1e-6, name)

    def test_servers(self):
        self.check_against_one_process(4, 1, 6, **SERVERS)

    def test_ring(self):
        self.check_against_one_process(3, 0, 6, arch="ring")

    def test_one_process(self):
        self.check_against_one_process(1, 0, 6, arch="ring")

    def test_in_memory_of_their_own(self):
        for ranks, first, options in ((4, 1, SERVERS), (3, 0, {"arch": "ring"})):
            self.check_against_one_process(ranks, first, 6, copies=True, overwrite=True, **options)


class Runs(TorchTest):

    def check_accounts(self, summary):
        self.assertEqual(summary["samples_leased"],
                         summary["samples_applied"] + summary["samples_returned"])

    def test_modes_that_do_not_wait_learn(self):
        for options in ({**SERVERS, "mode": "asgd"}, {"arch": "ring", "mode": "adaptive"}):
            summary, _ = self.run_job(3, samples=8192, overwrite=True, **options)
            self.assertGreaterEqual(summary["samples_applied"], 8192)
            self.check_accounts(summary)
            self.assertGreater(summary["test_accuracy"], 0.6, options)

    def test_memory_of_their_own_changes_no_result(self):
        results = [self.run_job(2, samples=2048, overwrite=True, mode="ssgd", copies=copies, **SERVERS)[0]
                   for copies in (False, True)]
        self.assertEqual(results[0]["test_loss"], results[1]["test_loss"])
        self.assertEqual(results[0]["test_accuracy"], results[1]["test_accuracy"])

    def test_a_killed_worker_does_not_end_the_job(self):
        summary, log = self.run_job(4, recovery=True, samples=3000, mode="asgd", pause=0.02,
                                    inject="rank=3,kill=1s", lost_after_s=2, **SERVERS)
        self.assertEqual(summary["lost"], 1, log)
        self.assertGreaterEqual(summary["samples_applied"], 3000)
        self.check_accounts(summary)

    def test_a_job_whose_server_was_killed_starts_again(self):
        options = {**SERVERS, "mode": "ssgd", "samples": 4800, "pause": 0.01, "batch": 8,
                   "checkpoint_every_samples": 800, "notes": str(self.folder)}
        process = subprocess.Popen(
            [LAUNCH, "-n", "3", "--restarts", "1", "--interfaces", "lo", "--", JOB,
             json.dumps(options), "--out", self.out], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "COHORT": sys.executable})
        self.wait_for_event("checkpoint")
        os.kill(int((self.folder / "0.pid").read_text()), signal.SIGKILL)
        try:
            log = process.communicate(timeout=left_s())[1]
        except subprocess.TimeoutExpired:
            process.terminate()
            raise
        self.assertEqual(process.returncode, 0, log)
        self.assertRegex(log, r"exit code 4 \(.*has died.*\): starting again with --resume")
        summary = json.loads((self.folder / "0.json").read_text())["summary"]
        self.assertEqual(summary["samples_applied"], 4800, log)
        self.check_accounts(summary)

    def test_a_stopped_job_goes_on(self):
        options = {**SERVERS, "mode": "ssgd", "samples": 4800, "pause": 0.01, "log_every_s": 0.2}
        self.stop_job(3, options)
        summary, log = self.run_job(3, resume=True, **options)
        self.assertEqual(summary["samples_applied"], 4800)
        self.assertIn("resuming from", log)
        self.check_accounts(summary)

    def test_a_stop_while_rank_0_evaluates(self):
        process = subprocess.Popen(
            self.command(3, {**SERVERS, "mode": "asgd", "samples": 1_000_000, "pause": 0.01,
                             "trouble": "slow evaluation", "eval_every_samples": 100,
                             "eval_share": 1}, False),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until((self.folder / "evaluating").exists, "rank 0 evaluates", lambda: process.poll() is None)
        process.send_signal(signal.SIGUSR1)
        try:
            log = process.communicate(timeout=left_s())[1]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.assertEqual(process.returncode, 75, log)

    def test_an_error_in_the_loop_ends_all_ranks(self):
        _, log = self.run_job(3, code=1, samples=100_000, trouble="error", mode="ssgd", **SERVERS)
        self.assertIn("KeyError: 'a mistake'", log)
        self.assertIn("the program raised KeyError", log)

    def test_a_loop_that_is_left_ends_the_job_with_a_checkpoint(self):
        _, _ = self.run_job(3, samples=100_000, trouble="break", mode="ssgd", **SERVERS)
        model = cohort.load_model(self.out + "/model.h5")
        self.assertTrue(numpy.isfinite(model["0.weight"]).all())
        self.assertTrue(list((pathlib.Path(self.out) / "checkpoints").iterdir()))


class Afterwards(TorchTest):
    """Behind the loop every rank's module holds what model.h5 holds, bit by bit."""

    def check(self, ranks):
        saved = {}
        with h5py.File(self.out + "/model.h5") as file:
            for group in ("parameters", "state"):
                file[group].visititems(lambda name, item: saved.update({name: item[()]})
                                       if isinstance(item, h5py.Dataset) else None)
        begun = dict(train_job.network(1).named_parameters())
        self.assertTrue((begun["0.weight"].detach().numpy() != saved["0.weight"]).any())
        for rank in ranks:
            with numpy.load(self.folder / f"{rank}.npz") as own:
                self.assertEqual(set(own), {*saved, "3.num_batches_tracked"})
                for name, values in saved.items():
                    self.assertEqual(own[name].tobytes(), values.tobytes(), f"rank {rank}: {name}")

    def test_servers_and_rings(self):
        for options in ({**SERVERS, "mode": "ssgd"}, {"arch": "servers", "servers": 2, "mode": "asgd"},
                        {**SERVERS, "mode": "asgd", "copies": True}, {"arch": "ring", "mode": "ssgd"},
                        {"arch": "ring", "mode": "localsgd:3"}, {"arch": "ring", "mode": "adaptive"}):
            with self.subTest(options):
                self.run_job(4, samples=1280, overwrite=True, **options)
                self.check(range(4))

    def test_one_process(self):
        self.run_job(1, samples=320)
        self.check([0])

    def test_a_stop_and_a_resume(self):
        options = {**SERVERS, "mode": "asgd", "samples": 4800, "pause": 0.01, "log_every_s": 0.2}
        self.stop_job(3, options)
        self.check(range(3))
        for samples in (4800, 4800):  # the second has nothing left to train
            self.run_job(3, resume=True, **{**options, "samples": samples})
            self.check(range(3))

    def test_a_loop_that_is_left(self):
        self.run_job(3, samples=100_000, trouble="break", mode="ssgd", **SERVERS)
        self.check(range(3))

    def test_a_lost_worker(self):
        for options in ({**SERVERS, "mode": "asgd"}, {"arch": "ring", "mode": "ssgd"}):
            with self.subTest(options):
                summary, log = self.run_job(4, recovery=True, samples=3000, pause=0.02, overwrite=True,
                                            inject="rank=3,kill=1s", lost_after_s=2, **options)
                self.assertEqual(summary["lost"], 1, log)
                self.check(range(3))


class StartedFirst(TorchTest):
    """MPI was started by somebody else, as mpi4py does when it is imported."""

    def start(self, level):
        code = f"""
import ctypes, sys
mpi = ctypes.CDLL("libmpi.so", ctypes.RTLD_GLOBAL)
mpi.MPI_Init_thread(None, None, {level}, ctypes.byref(ctypes.c_int()))
sys.argv[1:] = [{json.dumps({"out": self.out, "batch": 8, "samples": 320, **SERVERS})!r}]
sys.path.insert(0, {str(JOB.parent)!r})
import train_job
train_job.main()
ended = ctypes.c_int()
mpi.MPI_Finalized(ctypes.byref(ended))
print("ended" if ended.value else "still there", flush=True)
mpi.MPI_Finalize()
"""
        return subprocess.run([*MPIRUN, "-n", "3", sys.executable, "-c", code], capture_output=True,
                              text=True, check=False, timeout=left_s())

    def test_with_threads_it_is_used_and_left_as_it_is(self):
        done = self.start(level=3)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Open MPI reads a rank's output through a terminal, so lines of several ranks may be mixed.
        self.assertEqual((done.stdout.count("still there"), done.stdout.count("ended")), (3, 0), done.stdout)

    def test_mpi4py_behind_the_job(self):
        """MPI has ended then; in a job without MPI it has not begun."""
        package = self.folder / "mpi4py"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "MPI.py").write_text("print('imported', flush=True)\n")
        for ranks, code in ((2, 1), (1, 0)):
            done = self.run_script(ATTACH, LOOP, f"sys.path.insert(0, {str(self.folder)!r})",
                                   ranks=ranks, overwrite=True, after="from mpi4py import MPI")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual("import mpi4py.MPI before cohort.join" in done.stderr, ranks > 1, done.stderr)

    def test_without_threads_it_is_refused(self):
        done = self.start(level=0)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mpi4py.rc.thread_level", done.stderr)


class Modules(TorchTest):

    def check(self, *lines):
        done = self.run_script(*lines)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_mask_of_infinities_stays_as_it_is(self):
        self.check("net = torch.nn.Linear(2, 2)",
                   "net.register_buffer('mask', torch.tensor([0.0, -torch.inf]))",
                   "net.register_buffer('kept', torch.tensor([3.0]))",
                   "cohort.torch.attach(net, job, cohort.SGD())", LOOP,
                   "assert net.mask.tolist() == [0.0, -torch.inf] and net.kept.tolist() == [3.0]",
                   "tensors = cohort.load_model(out + '/model.h5')",
                   "assert tensors.keys() == {'weight', 'bias', 'kept'}, tensors.keys()",
                   "cohort.torch.load(net, out + '/model.h5')")

    def test_an_evaluation_leaves_modes_as_they_are(self):
        self.check("net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))",
                   "net[1].eval()",
                   "modes = []",
                   "def evaluate(net, ids):",
                   "    modes.append([module.training for module in net.modules()])",
                   "    return 1.0, 0",
                   "cohort.torch.attach(net, job, cohort.SGD(), evaluate, 4)", LOOP,
                   "assert modes and not any(modes[0]), modes",
                   "assert net.training and net[0].training and not net[1].training")

    def test_forked_processes(self):
        """One ends by itself, one by TERM, one outlives the job, whose lock is free all the same."""
        self.check("import fcntl, signal, time", ATTACH, "stays = None", LOOP,
                   "    stays = stays or os.fork()",
                   "    if stays == 0:",
                   "        time.sleep(60)",
                   "        os._exit(0)",
                   "    ends = os.fork()",
                   "    if ends == 0:",
                   "        sys.exit(3)",
                   "    assert os.waitstatus_to_exitcode(os.waitpid(ends, 0)[1]) == 3",
                   "    begins, begun = os.pipe()",
                   "    sleeps = os.fork()",
                   "    if sleeps == 0:",
                   "        os.write(begun, b'x')",  # Python drops signals that come before
                   "        time.sleep(60)",
                   "        os._exit(0)",
                   "    os.read(begins, 1)",
                   "    os.kill(sleeps, signal.SIGTERM)",
                   "    assert os.waitstatus_to_exitcode(os.waitpid(sleeps, 0)[1]) == -signal.SIGTERM",
                   "assert not job.stopped",
                   "fcntl.flock(os.open(out + '/run.lock', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)",
                   "os.kill(stays, signal.SIGKILL)")


if __name__ == "__main__":
    torch_support.main()
