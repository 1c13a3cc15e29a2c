#!/usr/bin/env python3
"""`cohort profile` writes profiles that simulations take.

    profile_test.py COHORT MPIRUN [MPIRUN-OPTION...]
"""

import tomllib

import cli_support
from cli_support import ProgramTest, run, run_ranks

QUICK = ("--repetitions", 7, "--batch", 32)


def read(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


class Profile(ProgramTest):

    def test_a_profile_of_a_dataset_can_be_simulated_on(self):
        out = self.out().with_suffix(".toml")
        text = run("profile", "--data", self.data, "--out", out, "--name", "here",
                   "--workers-per-node", 2, *QUICK).stdout
        self.assertIn("forward and backward", text)
        profile = read(out)
        self.assertEqual(profile["name"], "here")
        self.assertEqual(profile["devices_per_node"], 2)
        self.assertGreater(profile["memory_bytes_per_s"], 1e6)
        model = profile["workloads"]["smallcnn"]
        self.assertGreater(model["device_s_per_sample"], 0)
        self.assertGreater(model["cpu_s_per_sample"] + model["cpu_s"], 0)
        self.assertTrue(0 < model["backward_share"] < 1)
        # 8 x 3 x 3 + 8, 16 x 8 x 3 x 3 + 16, 144 x 4 + 4 with 12 x 12 samples, tensors padded to
        # 16 floats.
        self.assertEqual(model["parameter_bytes"], 4 * (80 + 16 + 1152 + 16 + 576 + 16))
        run("simulate", "--no-train", "--profile", out, "--workers", 4, "--samples", 2000)

    def test_a_file_collects_models(self):
        out = self.out().with_suffix(".toml")
        run("profile", "--model", "mlp", "--input", "20", "--classes", 3, "--out", out, *QUICK)
        both = out.with_stem("both")
        run("profile", "--model", "smallcnn", "--like", out, "--out", both, *QUICK)
        self.assertEqual(read(both)["workloads"].keys(), {"mlp", "smallcnn"})
        self.assertIn("[workloads", run("profile", "--model", "softmax", *QUICK).stdout)

    def test_two_ranks_measure_their_messages(self):
        out = self.out().with_suffix(".toml")
        done = run_ranks(2, "profile", "--loopback-network", "--out", out, *QUICK)
        self.assertIn("messages between two ranks of this host", done.stdout)
        profile = read(out)
        self.assertEqual(profile["nic_bytes_per_s"], profile["local_bytes_per_s"])
        self.assertTrue(0 < profile["latency_s"] < 0.1)

    def test_what_cannot_be_measured_is_refused(self):
        for arguments, code in ((("--model", "nothing"), 2), (("--input", "1x28"), 2),
                                (("--input", "1xx28"), 2), (("--repetitions", 3), 2),
                                (("--like", "nothing"), 2), (("--optimizer", "nothing"), 2),
                                (("--data", "/nonexistent.h5"), 3),
                                (("--out", "/nonexistent/p.toml", *QUICK), 3)):
            with self.subTest(arguments=arguments):
                run("profile", *arguments, code=code)


if __name__ == "__main__":
    cli_support.main()
