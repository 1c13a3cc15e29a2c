#!/usr/bin/env python3
"""Node staging on real ranks: fewer bytes, the same parameters, and nothing is lost with a head.

nodes_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""


import numpy as np

import cli_support
from cli_support import ProgramTest, call, events, tensors



class NodeStaging(ProgramTest):

    def job(self, name, ranks, *arguments):
        """A run's folder, its summary and what it said."""
        out = self.folder / f"{self.id().rsplit('.', 1)[-1]}-{name}"
        done = call([*cli_support.MPIRUN, "--enable-recovery", "-n", ranks, cli_support.PROGRAM, "train",
                     "--data", self.data, "--out", out, "--arch", "servers", "--threads", 1,
                     "--checkpoint-every-s", 0, "--mirror-every-s", 0, *arguments])
        text = done.stdout + done.stderr
        self.assertEqual((out / "exit_code").read_text().splitlines()[0], "0", text)
        summary = events(out, "summary")[-1]
        self.assertEqual(summary["samples_leased"],
                         summary["samples_applied"] + summary["samples_returned"], text)
        self.assertEqual(summary["samples_outstanding"], 0)
        return out, summary, text

    def test_bytes_fall_by_the_workers_of_the_node(self):
        """Of 2 W P bytes per update, W P of them to the servers, P to the servers stay."""
        for servers, workers, mode in (1, 4, "ssgd"), (2, 3, "ssgd"), (1, 3, "localsgd:2"):
            with self.subTest(servers=servers, workers=workers, mode=mode):
                sent = {}
                for staging in "off", "on":
                    _, summary, _ = self.job(
                        f"{servers}-{workers}-{mode[0]}-{staging}", servers + workers, "--servers",
                        servers, "--mode", mode, "--model", "mlp", "--batch", 10, "--samples",
                        200 * workers, "--node-staging", staging)
                    sent[staging] = summary["bytes_received"]
                wanted = (1 + workers) / (2 * workers)
                self.assertAlmostEqual(sent["on"] / sent["off"], wanted, delta=0.05 * wanted)

    def test_parameters_are_those_of_direct_pushes(self):
        cases = ((1, 3, "ssgd", 60), (2, 3, "ssgd", 600), (3, 2, "localsgd:2", 160),
                 (1, 4, "hier:2:2", 320))
        for servers, workers, mode, samples in cases:
            with self.subTest(servers=servers, workers=workers, mode=mode):
                found = {}
                for staging in "off", "on":
                    out, _, _ = self.job(
                        f"{servers}-{workers}-{mode[0]}-{staging}", servers + workers, "--servers",
                        servers, "--mode", mode, "--model", "smallcnn", "--batch", 20, "--lr", 0.02,
                        "--samples", samples, "--deterministic", "--node-staging", staging)
                    found[staging] = tensors(out)
                self.assertEqual(found["on"].keys(), found["off"].keys())
                largest = 0
                for name, values in found["on"].items():
                    on, off = (np.frombuffer(one, np.float32) for one in (values, found["off"][name]))
                    np.testing.assert_allclose(on, off, rtol=1e-5 if samples <= 60 else 1e-3,
                                               atol=1e-6 if samples <= 60 else 1e-4, err_msg=name)
                    largest = max(largest, np.max(np.abs(off), initial=0))
                self.assertGreater(largest, 0)

    def sleeping(self, name, mode, faults, *more):
        return self.job(name, 5, "--mode", mode, "--model", "mlp", "--batch", 10, "--samples", 6000,
                        "--compute", "sleep:10ms", "--node-staging", "on", "--inject", faults, *more)

    def test_others_take_the_place_of_heads_that_are_lost(self):
        """Rank 1 is the head, then 2, then 3."""
        for mode in "ssgd", "static:2", "localsgd:3":
            with self.subTest(mode=mode):
                _, summary, text = self.sleeping(
                    mode[:2], mode, "rank=1,kill=0.3s;rank=2,kill=0.7s;rank=3,kill=1.1s")
                self.assertEqual(summary["samples_applied"], 6000, text)
                self.assertEqual(summary["lost"], 3, text)
                self.assertNotIn("goes on without", text)

    def test_a_head_that_freezes_is_replaced_and_comes_back(self):
        _, summary, text = self.sleeping("thaw", "ssgd", "rank=1,freeze=0.3s..2.5s",
                                         "--lost-after-s", 1)
        self.assertEqual(summary["samples_applied"], 6000, text)
        self.assertGreaterEqual(summary["lost"], 1, text)

    def test_modes_change_between_those_that_stage_and_those_that_do_not(self):
        _, summary, text = self.job(
            "schedule", 5, "--mode-schedule", "0:ssgd,600:asgd,1200:static:2,1800:dcasgd,2400:zeno++,"
            "3000:localsgd:2,3600:ssgd", "--model", "mlp", "--batch", 10, "--lr", 0.01, "--samples",
            4200, "--node-staging", "on")
        self.assertEqual(summary["samples_applied"], 4200, text)


if __name__ == "__main__":
    cli_support.main()
