#!/usr/bin/env python3
"""bf16 on the wire on real ranks: half the bytes, what virtual workers learn, and nothing is lost.

wire_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import cli_support  # noqa: E402
from cli_support import ProgramTest, call, events, tensors  # noqa: E402

JOB = ("--model", "smallcnn", "--batch", 20, "--lr", 0.02)


class Wire(ProgramTest):

    def job(self, name, ranks, *arguments):
        """A run's folder, its summary and what it said."""
        out = self.folder / f"{self.id().rsplit('.', 1)[-1]}-{name}"
        done = call([*cli_support.MPIRUN, "--enable-recovery", "-n", ranks, cli_support.PROGRAM, "train",
                     "--data", self.data, "--out", out, "--threads", 1, "--checkpoint-every-s", 0, *arguments])
        text = done.stdout + done.stderr
        self.assertEqual((out / "exit_code").read_text().splitlines()[0], "0", text)
        summary = events(out, "summary")[-1]
        self.assertEqual(summary["samples_leased"],
                         summary["samples_applied"] + summary["samples_returned"], text)
        self.assertEqual(summary["samples_outstanding"], 0)
        return out, summary, text

    def servers(self, name, ranks, *arguments):
        return self.job(name, ranks, "--arch", "servers", *arguments)

    def test_virtual_workers_learn_what_real_ones_do(self):
        for servers, mode in (1, "ssgd"), (2, "ssgd"), (1, "localsgd:2"):
            with self.subTest(servers=servers, mode=mode):
                job = (*JOB, "--samples", 960, "--mode", mode, "--servers", servers, "--wire")
                _, real, _ = self.servers(f"{servers}-{mode[:2]}", servers + 3, "--deterministic", *job, "bf16")
                losses = {}
                for wire in "bf16", "f32":
                    done = cli_support.run("simulate", "--data", self.data, "--workers", 3, "--arch", "servers",
                                           "--json", *job, wire)
                    losses[wire] = json.loads(done.stdout)["test_loss"]
                self.assertAlmostEqual(losses["bf16"], real["test_loss"], delta=1e-6 * real["test_loss"])
                self.assertNotEqual(losses["f32"], losses["bf16"])
                self.assertAlmostEqual(losses["f32"], losses["bf16"], delta=0.05 * losses["f32"])

    def test_deterministic_runs_repeat_to_the_bit(self):
        for arch, ranks in ("servers", 4), ("ring", 3):
            with self.subTest(arch=arch):
                found = [tensors(self.job(f"{arch}-{run}", ranks, "--arch", arch, "--deterministic", "--wire", "bf16",
                                          *JOB, "--samples", 600)[0]) for run in range(2)]
                self.assertEqual(*found)

    def test_servers_and_workers_move_half_the_bytes(self):
        for servers, mode, staging in (1, "ssgd", "off"), (2, "asgd", "off"), (2, "ssgd", "on"), (1, "localsgd:2", "on"):
            with self.subTest(servers=servers, mode=mode, staging=staging):
                received = {}
                for wire in "f32", "bf16":
                    _, summary, _ = self.servers(
                        f"{servers}-{mode[:2]}-{staging}-{wire}", servers + 3, "--servers", servers, "--mode", mode,
                        "--node-staging", staging, "--model", "mlp", "--batch", 10, "--samples", 600, "--wire", wire,
                        "--mirror-every-s", 0)
                    received[wire] = summary["bytes_received"] / summary["updates"]
                self.assertAlmostEqual(received["bf16"] / received["f32"], 0.5, delta=0.04)

    def test_every_mode_learns(self):
        for mode in "ssgd", "asgd", "static:2", "saps", "localsgd:2", "dcasgd", "hier:2:2":
            with self.subTest(mode=mode):
                _, summary, _ = self.servers(mode[:3], 5, "--mode", mode, *JOB, "--epochs", 6, "--wire", "bf16")
                self.assertGreater(summary["test_accuracy"], 0.9)
        for mode in "ring", "ring:2", "localsgd:2":
            with self.subTest(mode=mode):
                _, summary, _ = self.job(mode.replace(":", ""), 4, "--arch", "ring", "--mode", mode, *JOB, "--epochs",
                                         6, "--wire", "bf16")
                self.assertGreater(summary["test_accuracy"], 0.9)

    def test_modes_change_and_workers_are_lost(self):
        _, summary, text = self.servers(
            "schedule", 6, "--servers", 2, "--mode-schedule", "0:ssgd,600:asgd,1200:static:2,1800:dcasgd,2400:zeno++,"
            "3000:localsgd:2,3600:ssgd", "--model", "mlp", "--batch", 10, "--lr", 0.01, "--samples", 4200, "--wire",
            "bf16", "--node-staging", "on")
        self.assertEqual(summary["samples_applied"], 4200, text)
        for name, arch, mode in ("ssgd", "servers", "ssgd"), ("asgd", "servers", "asgd"), ("ring", "ring", "ring:2"):
            _, summary, text = self.job(
                name, 5, "--arch", arch, "--mode", mode, "--model", "mlp", "--batch", 10, "--samples", 4000, "--compute",
                "sleep:10ms", "--wire", "bf16", "--node-staging", "on" if mode == "ssgd" else "off", "--inject",
                "rank=2,kill=0.4s;rank=3,freeze=0.8s..2.5s", "--lost-after-s", 1)
            self.assertEqual(summary["samples_applied"], 4000, text)
            self.assertGreaterEqual(summary["lost"], 1, text)

    def test_clipping(self):
        """A bound that no gradient reaches changes no bit; of a lower one virtual workers learn the same."""
        for arch, mode, ranks in ("servers", "ssgd", 4), ("ring", "ring", 3), ("servers", "localsgd:2", 4):
            with self.subTest(arch=arch, mode=mode):
                job = ("--arch", arch, *JOB, "--mode", mode, "--samples", 480, "--clip-norm")
                real = {bound: self.job(f"{arch}-{mode[:2]}-{bound}", ranks, "--deterministic", *job, bound)
                        for bound in (0, 1e6, 0.4)}
                self.assertEqual(tensors(real[0][0]), tensors(real[1e6][0]))
                loss = real[0.4][1]["test_loss"]
                self.assertNotAlmostEqual(loss, real[0][1]["test_loss"], delta=1e-3 * loss)
                done = cli_support.run("simulate", "--data", self.data, "--workers", 3, "--json", *job, 0.4)
                self.assertAlmostEqual(json.loads(done.stdout)["test_loss"], loss, delta=1e-6 * loss)

    def test_adamw_takes_its_options(self):
        job = (*JOB[:4], "--arch", "servers", "--mode", "ssgd", "--optimizer", "adamw", "--lr", 0.003, "--samples", 480)
        losses = []
        for more in (), ("--beta1", 0.8), ("--beta2", 0.9), ("--epsilon", 0.01):
            real = self.job(f"{len(losses)}", 4, "--deterministic", *job, *more)[1]["test_loss"]
            done = cli_support.run("simulate", "--data", self.data, "--workers", 3, "--json", *job, *more)
            self.assertAlmostEqual(json.loads(done.stdout)["test_loss"], real, delta=1e-6 * real)
            losses.append(real)
        self.assertEqual(len(set(losses)), len(losses))


if __name__ == "__main__":
    cli_support.main()
