#!/usr/bin/env python3
"""What PyTorch programs do wrong in jobs.   torch_mistakes_test.py COHORT MPIRUN MPIRUN-OPTION... [-- UNITTEST-OPTION...]"""

import os
import pathlib
import re
import subprocess
import sys

import torch_support
from torch_support import ATTACH, LOOP, SERVERS, TorchTest, left_s

import cohort


class Mistakes(TorchTest):
    """Each is an exception that says what to do, never a hang."""

    def expect(self, trouble, text):
        _, log = self.run_job(1, code=1, samples=200, trouble=trouble)
        self.assertIn(text, log)

    def test_other_parameters(self):
        self.expect("parameters", "the module has other parameters or buffers than when it was attached")

    def test_a_loss_that_is_no_number(self):
        self.expect("vector", "try loss.mean()")

    def test_two_backward_passes(self):
        self.expect("twice", "got a gradient twice in a lease")

    def test_no_done(self):
        self.expect("forgotten", "lease.done(loss) was not called")

    def test_the_job_in_a_forked_process(self):
        _, log = self.run_job(1, samples=16, trouble="fork")
        self.assertIn("this process was forked", log)

    def test_wrong_options(self):
        for options, text in (({"mode": "nix"}, "nix"), ({"batch": 0}, "--batch")):
            with self.assertRaisesRegex(ValueError, text):
                cohort.join(train_samples=100, out=self.out, **options)
        for name, instead in (("lr", "cohort.SGD"), ("init", "cohort.torch.load"), ("model", "attach"),
                              ("precision", "autocast"), ("augment", "loop's body")):
            with self.assertRaisesRegex(ValueError, rf"\[join\] {name} .*{instead}"):
                cohort.join(train_samples=100, out=self.out, **{name: "1"})
        with self.assertRaisesRegex(ValueError, "train_samples"):
            cohort.join(train_samples=0, out=self.out)

    def check_loop(self, text, *replaced, **options):
        """A loop with some of its words replaced ends with this text, or, where there is none, well."""
        loop = LOOP
        for old, new in zip(replaced[::2], replaced[1::2]):
            self.assertIn(old, loop)
            loop = loop.replace(old, new)
        done = self.run_script(ATTACH, "before = torch.optim.SGD(net.parameters(), 0.1)",
                               "scaler = torch.amp.GradScaler('cpu', enabled=False)", loop, overwrite=True,
                               **options)
        self.assertEqual(done.returncode, 1 if text else 0, done.stderr)
        self.assertIn(text, done.stderr)

    def test_gradients_that_are_changed_when_they_have_left(self):
        done = "lease.done"
        for line in ("torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3)", "net.zero_grad()",
                     "net.zero_grad(set_to_none=False)", "net.weight.grad += torch.randn(2, 2)",
                     "net.bias.grad.data.clamp_(-1e-3, 1e-3)", "net.weight.grad = torch.zeros(2, 2)",
                     "scaler = torch.amp.GradScaler('cpu'); scaler.scale(loss); scaler.unscale_(before)"):
            with self.subTest(line):
                text = "[GradScaler]" if "scale(loss)" in line else "changed gradients between backward and"
                self.check_loop(text, done, line + "\n        " + done)
        for lines in (("loss.backward", "net.zero_grad()\n        loss.backward"),
                      ("loss.backward", "before.zero_grad(False)\n        loss.backward"),
                      ("for lease", "net.weight.register_hook(lambda gradient: 2 * gradient)\n    for lease"),
                      ("lease.done(loss)", "lease.done(loss)\n        net.zero_grad()"),
                      ("loss.backward()", "scaler.scale(loss).backward()")):
            with self.subTest(lines):
                self.check_loop("", *lines)

    def test_a_scaled_loss(self):
        self.check_loop("[GradScaler] the gradients of a scaled loss", "loss.backward()",
                        "torch.amp.GradScaler('cpu').scale(loss).backward()")

    def test_parameters_that_the_program_changes(self):
        text = "the program has changed the values of parameters"
        for line in ("before.step()", "net.bias.data.mul_(2)", "net.weight.data[0, 0] = 7",
                     "net.load_state_dict(net.state_dict())"):
            with self.subTest(line):
                self.check_loop(text, "lease.done", line + "\n        lease.done")
        for line in ("before.step()", "torch.no_grad()(net.weight.clamp_)(0)"):
            with self.subTest(line):
                self.check_loop(text, "lease.done(loss)", "lease.done(loss)\n        " + line)

    def test_members_whose_parameters_differ(self):
        """By a change that no version counter shows: the ring finds it by checksums."""
        for ranks, text in ((3, r"got rank 2 \([^)]*\), unlike the others"),
                            (2, r"got rank 0 \([^)]*\) against rank 1 \([^)]*\)")):
            with self.subTest(ranks):
                done = self.run_script(
                    ATTACH, "updates = 0", LOOP, "    updates += 1",
                    f"    if updates == 5 and job.rank == {ranks - 1}:",
                    "        net.weight.data[1, 1] += 2e-7", ranks=ranks, samples=1_000_000, batch=4,
                    arch="ring", mode="ssgd", overwrite=True)
                self.assertNotEqual(done.returncode, 0)
                found = re.search(r"the members' parameters differ; .*, " + text + r".*\(after update (\d+),",
                                  done.stderr)
                self.assertTrue(found, done.stderr)
                self.assertLessEqual(int(found[1]), 105)

    def test_processes_that_mpi_does_not_join(self):
        """As with the library of one Open MPI under the mpirun of another."""
        started = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "0", "OMPI_VERSION": "5.0.11"}
        for line in (f"cohort.join(train_samples=64, out={self.out!r})",
                     "torch.distributed.init_process_group('cohort')"):
            with self.subTest(line):
                done = subprocess.run(
                    [sys.executable, "-c", f"import cohort, cohort.distributed, torch\n{line}"],
                    capture_output=True, text=True, check=False, timeout=left_s(), env={**os.environ, **started})
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, r"expected 3 ranks, as Open MPI 5\.0\.11 started, got 1 of Open MPI v")
                self.assertFalse(pathlib.Path(self.out).exists())

    def test_processes_of_torchrun(self):
        script = self.folder / "script.py"
        for line in (f"cohort.join(train_samples=64, out={self.out!r})",
                     "torch.distributed.init_process_group('cohort')"):
            with self.subTest(line):
                script.write_text(f"import cohort, cohort.distributed, torch\n{line}\n", encoding="utf-8")
                done = subprocess.run(
                    [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", script],
                    capture_output=True, text=True, check=False, timeout=left_s())
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("got 2 separate tasks of torchrun", done.stderr)
                self.assertRegex(done.stderr, r"exitcode *: 2 ")
                self.assertFalse(pathlib.Path(self.out).exists())

    def test_modules_that_cannot_be_trained(self):
        for text, make in (("no parameter that requires a gradient", "torch.nn.ReLU()"),
                           ("try net.float().cpu()", "torch.nn.Linear(2, 2).half()"),
                           ("got torch.complex64", "torch.nn.Linear(2, 2, dtype=torch.complex64)"),
                           ("on the CPU or a GPU, got torch.float32 on meta",
                            "torch.nn.Linear(2, 2, device='meta')")):
            done = self.run_script(f"cohort.torch.attach({make}, job, cohort.SGD())")
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)

    def test_parameters_that_leave_the_jobs_memory(self):
        done = self.run_script(ATTACH, LOOP, "    net.double()")
        self.assertEqual(done.returncode, 1)
        self.assertIn("[bias, weight] the module has other parameters", done.stderr)

    def test_frozen_values_that_differ_among_ranks(self):
        done = self.run_script("net = torch.nn.Linear(2, 2)", "net.bias.requires_grad_(False)",
                               "net.bias.fill_(job.rank)",
                               "cohort.torch.attach(net, job, cohort.SGD())", LOOP, ranks=2)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the ranks train different networks", done.stderr)

    def test_an_optimizer_that_cannot_be(self):
        done = self.run_script(ATTACH.replace("SGD()", "SGD(lr=-1)"), LOOP, ranks=2)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ValueError: --lr", done.stderr)

    def test_a_server_without_the_loop(self):
        done = self.run_script(ATTACH, "for lease in job if job.is_worker else []:",
                               "    loss = net(torch.ones(len(lease), 2)).sum()",
                               "    loss.backward()", "    lease.done(loss)", ranks=2, **SERVERS)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("left without training; try: for lease in job, on every rank", done.stderr)

    def test_results_that_cannot_be_saved(self):
        done = self.run_script(ATTACH, LOOP, f"    os.makedirs({self.out!r} + '/model.h5/x', exist_ok=True)")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("OSError: [job] some results could not be saved", done.stderr)


if __name__ == "__main__":
    torch_support.main()
