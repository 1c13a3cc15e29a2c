#!/usr/bin/env python3
"""Training on many ranks: the same numbers as one process, whatever the exchange.

ranks_test.py COHORT REFERENCE MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import json
import pathlib
import shutil
import sys

import numpy as np

import cli_support
from cli_support import ProgramTest, call, events, run_ranks, tensors

REFERENCE = None

# Three epochs of mini-batches that do not divide them, so that rounds have tails.
JOB = ["--model", "mlp", "--batch", 26, "--lr", 0.05, "--momentum", 0.9, "--weight-decay", 1e-3,
       "--augment", "pad-crop:1,flip", "--seed", 3]


class ManyRanks(ProgramTest):

    def reference(self, workers, *job):
        out = self.folder / f"reference-{workers}-{abs(hash(job))}"
        if not out.exists():
            call([REFERENCE, out, workers, "--data", self.data, *job])
        return tensors(out)

    def many(self, name, ranks, *arguments, deterministic=("--deterministic",), **options):
        out = self.folder / f"{self.id().rsplit('.', 1)[-1]}-{name}"
        run_ranks(ranks, "train", "--data", self.data, "--out", out, "--threads", 1, *deterministic,
                  "--checkpoint-every-s", 0, *arguments, **options)
        return out

    def check_same(self, out, expected):
        """The same model; says by how much it differs, without listing all bytes."""
        found = tensors(out)
        self.assertEqual(found.keys(), expected.keys())
        for name, values in found.items():
            if values != expected[name]:
                left, right = (np.frombuffer(x, np.float32) for x in (values, expected[name]))
                self.fail(f"{name}: {np.sum(left != right)} of {left.size} differ, "
                          f"by {np.max(np.abs(left - right))} at most")

    def check_accounts(self, out, samples):
        summary = events(out, "summary")[-1]
        self.assertEqual(summary["samples_applied"], samples)
        self.assertEqual(summary["samples_leased"], summary["samples_applied"]
                         + summary["samples_returned"] + summary["samples_outstanding"])
        self.assertEqual(summary["samples_outstanding"], 0)
        self.assertEqual((pathlib.Path(out) / "exit_code").read_text().splitlines()[0], "0")
        return summary

    def test_ring_equals_one_process_bit_for_bit(self):
        job = (*JOB, "--samples", 1300)
        for workers in (1, 2, 3, 4, 8):
            with self.subTest(workers=workers):
                out = self.many(workers, workers, *job, "--bucket-bytes", 4096)
                self.check_same(out, self.reference(workers, *job))
                self.check_accounts(out, 1300)

    def test_ranks_measure_a_choice_of_algorithms_once(self):
        self.many("choices", 4, "--model", "smallcnn", "--batch", 26, "--samples", 104, deterministic=(),
                  environment={"XDG_CACHE_HOME": str(self.folder / "cache")})
        choices = (self.folder / "cache/cohort/algorithms.txt").read_text().splitlines()
        self.assertGreater(len(choices), 2)
        keys = [line.split(" ", 1)[1] for line in choices]
        self.assertEqual(len(keys), len(set(keys)), keys)

    def test_servers_equal_one_process_bit_for_bit(self):
        job = (*JOB, "--samples", 1300)
        for servers, workers in ((1, 1), (1, 4), (2, 3), (3, 2), (3, 5)):
            with self.subTest(servers=servers, workers=workers):
                out = self.many(f"{servers}-{workers}", servers + workers, *job, "--arch",
                                "servers", "--servers", servers, "--chunk-bytes", 4096)
                self.check_same(out, self.reference(workers, *job))
                self.assertEqual(self.check_accounts(out, 1300)["servers"], servers)

    def test_batch_statistics_and_adamw_are_the_same_too(self):
        job = ("--model", "smallcnn", "--batch", 20, "--lr", 0.003, "--optimizer", "adamw",
               "--samples", 500)
        ring = self.many("ring", 3, *job)
        servers = self.many("servers", 4, *job, "--arch", "servers")
        self.check_same(ring, self.reference(3, *job))
        self.check_same(servers, self.reference(3, *job))

    def test_static_with_all_workers_is_synchronous(self):
        job = (*JOB, "--samples", 600)
        out = self.many("static", 4, *job, "--arch", "servers", "--mode", "static:3")
        self.check_same(out, self.reference(3, *job))

    def test_a_scale_is_that_of_the_learning_rate(self):
        half = ("--model", "smallcnn", "--batch", 20, "--samples", 480, "--weight-decay", 0.01)
        for arch, ranks in (("servers", 4), ("ring", 3)):
            for optimizer, mode in (("sgd", "ssgd"), ("adamw", "ssgd"), ("sgd", "localsgd:2")):
                with self.subTest(arch=arch, optimizer=optimizer, mode=mode):
                    job = (*half, "--arch", arch, "--optimizer", optimizer)
                    name = f"{arch}-{optimizer}-{mode[:5]}"
                    scaled = self.many(name, ranks, *job, "--lr", 0.02, "--mode", mode + "@0.5")
                    plain = self.many(name + "-half", ranks, *job, "--lr", 0.01, "--mode", mode)
                    self.assertEqual(tensors(scaled), tensors(plain))
                    self.assertEqual(events(scaled, "summary")[-1]["mode"], mode + "@0.5")

    def test_a_scale_changes_in_the_run(self):
        job = ("--model", "smallcnn", "--batch", 20, "--samples", 960, "--lr", 0.02, "--arch",
               "servers")
        changed = self.many("modes", 4, *job, "--mode-schedule", "0:ssgd,480:ssgd@0.25")
        stepped = self.many("steps", 4, *job, "--lr-schedule", "step:0.25@480")
        self.assertEqual(events(changed, "switch")[-1]["to"], "ssgd@0.25")
        self.assertEqual(tensors(changed), tensors(stepped))

    def test_virtual_workers_learn_what_real_ones_do(self):
        for mode in ("ssgd", "localsgd:2", "hier:2:2"):
            job = ("--model", "smallcnn", "--batch", 20, "--samples", 640, "--lr", 0.02, "--mode",
                   mode)
            out = self.many("real", 4, "--arch", "ring", "--overwrite", *job)
            real = events(out, "summary")[-1]
            for arch in ("ring", "servers"):
                done = cli_support.run("simulate", "--data", self.data, "--workers", 4, "--arch",
                                       arch, "--json", *job)
                self.assertAlmostEqual(json.loads(done.stdout)["test_loss"], real["test_loss"],
                                       delta=1e-6 * real["test_loss"])

    def test_asynchronous_with_one_worker_is_synchronous(self):
        job = (*JOB, "--samples", 600)
        for mode in ("asgd", "static:1"):
            out = self.many(mode.replace(":", "-"), 2, *job, "--arch", "servers", "--mode", mode)
            self.check_same(out, self.reference(1, *job))

    def test_other_sums_agree_closely(self):
        job = (*JOB, "--samples", 600)
        accuracy = events(self.many("ordered", 3, *job), "summary")[-1]["test_loss"]
        for algorithm in ("ring", "mpi"):
            out = self.many(algorithm, 3, *job, "--all-reduce", algorithm)
            self.assertAlmostEqual(events(out, "summary")[-1]["test_loss"], accuracy, places=4)

    def test_asynchronous_modes_learn_and_account_for_every_sample(self):
        for mode in ("asgd", "static:2"):
            out = self.many(mode.replace(":", "-"), 6, "--model", "smallcnn", "--batch", 10, "--lr",
                            0.02, "--epochs", 6, "--arch", "servers", "--servers", 2, "--mode",
                            mode, "--inject", "rank=5,cpu=0.4", "--eval-every-samples", 500,
                            "--eval-share", 1, deterministic=())
            summary = self.check_accounts(out, 3600)
            self.assertGreater(summary["test_accuracy"], 0.9)
            beside = [line for line in events(out, "evaluation") if line["samples_applied"] < 3600]
            self.assertGreater(len(beside), 0, "evaluated while training went on")
            self.assertEqual({line["pause_s"] for line in beside}, {0})

    def test_a_slow_worker_does_not_keep_the_tail(self):
        """The others wait for it at the end, for more than twice their limit, which is no stall of theirs."""
        out = self.many("asgd", 4, *JOB, "--samples", 1500, "--arch", "servers", "--mode", "asgd",
                        "--inject", "rank=3,delay=8s", "--stall-limit-s", 3, "--lost-after-s", 3,
                        deterministic=())
        self.check_accounts(out, 1500)

    def test_resume_is_exact(self):
        job = (*JOB, "--checkpoint-every-samples", 200)
        for name, ranks, arch in (("ring", 3, ()),
                                  ("servers", 5, ("--arch", "servers", "--servers", 2))):
            with self.subTest(name):
                whole = self.many(f"{name}-whole", ranks, *job, *arch, "--samples", 1300)
                parts = self.many(f"{name}-parts", ranks, *job, *arch, "--samples", 546)
                self.many(f"{name}-parts", ranks, *job, *arch, "--samples", 1300, "--resume")
                self.check_same(whole, tensors(parts))
                self.check_accounts(parts, 1300)

    def test_resume_from_the_middle_is_exact(self):
        """From checkpoints taken while leases were out."""
        job = (*JOB, "--checkpoint-every-samples", 200, "--keep-checkpoints", 20, "--samples", 1300)
        for name, ranks, arch in (("ring", 3, ()), ("servers", 4, ("--arch", "servers"))):
            with self.subTest(name):
                whole = self.many(f"{name}-whole", ranks, *job, *arch)
                parts = self.folder / f"{self.id().rsplit('.', 1)[-1]}-{name}-parts"
                shutil.copytree(whole, parts)
                manifests = sorted(path for path in (parts / "checkpoints").glob("step-*.h5")
                                   if "shard" not in path.name)
                self.assertGreater(len(manifests), 1)
                for path in manifests[1:]:
                    path.unlink()
                self.many(f"{name}-parts", ranks, *job, *arch, "--resume")
                self.check_same(parts, tensors(whole))
                self.check_accounts(parts, 1300)
                self.assertEqual([line["samples_applied"] for line in events(parts, "evaluation")],
                                 [line["samples_applied"] for line in events(whole, "evaluation")])

    def test_resume_on_other_ranks_keeps_samples_and_parameters(self):
        job = (*JOB, "--checkpoint-every-samples", 100)
        out = self.many("run", 3, *job, "--samples", 600)
        before = tensors(out)
        servers = ("--arch", "servers", "--servers", 2)
        self.many("run", 4, *job, *servers, "--samples", 600, "--resume")
        self.check_same(out, before)
        self.many("run", 4, *job, *servers, "--samples", 1200, "--resume")
        self.check_accounts(out, 1200)
        self.many("run", 2, *job, "--samples", 1500, "--resume")
        self.check_accounts(out, 1500)

    def test_evaluation_is_split_and_complete(self):
        job = (*JOB, "--samples", 600, "--eval-every-samples", 200)
        for name, ranks, arch in (("ring", 3, ()), ("servers", 4, ("--arch", "servers"))):
            out = self.many(name, ranks, *job, *arch)
            self.assertEqual(len(events(out, "evaluation")), 3)
            self.assertEqual({line["test_samples"] for line in events(out, "evaluation")}, {200})
            whole = json.loads(call([cli_support.PROGRAM, "eval", "--data", self.data, "--json",
                                     "--threads", 1, "--model-file", out / "model.h5"]).stdout)
            summary = events(out, "summary")[-1]
            self.assertEqual(whole["accuracy"], summary["test_accuracy"])
            self.assertAlmostEqual(whole["loss"], summary["test_loss"], places=6)

    def test_wrong_worlds_are_usage_errors(self):
        for ranks, arguments, word in (
                (1, ("--arch", "servers"), "too few ranks"),
                (2, ("--arch", "servers", "--servers", 2), "too few ranks"),
                (2, ("--servers", 1), "--servers"),
                (2, ("--mode", "asgd"), "asgd"),
                (3, ("--arch", "servers", "--mode", "static:3"), "static:3"),
                (2, ("--inject", "rank=2,cpu=0.5"), "--inject"),
                (2, ("--inject", "rank=1,cpu=2"), "cpu"),
                (2, ("--lost-after-s", 90), "--lost-after-s"),
                (4, ("--arch", "servers", "--mode", "asgd", "--deterministic"), "--deterministic")):
            with self.subTest(arguments):
                out = self.folder / "never"
                done = run_ranks(ranks, "train", "--data", self.data, "--out", out, *arguments,
                                 code=2)
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stderr.count(" error "), 1, "one rank talks")
                self.assertFalse(out.exists())

    def test_processes_that_mpi_does_not_join(self):
        """As with the library of one Open MPI under the mpirun of another: each would be alone."""
        started = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2",
                   "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_VERSION": "5.0.11"}
        out = self.folder / "never"
        jobs = self.folder / "jobs.toml"
        jobs.write_text(f'[defaults]\ndata = "{self.data}"\nmodel = "mlp"\ntime-as = "resnet20"\nsamples = 100\nworkers = 1\n'
                        '[[job]]\nname = "one"\n', encoding="utf-8")
        for words in (("train", "--data", self.data, "--out", out), ("bench", "exchange"),
                      ("fleet", jobs, "--out", out)):
            with self.subTest(words[0]):
                done = cli_support.run(*words, code=2, environment=started)
                self.assertRegex(done.stderr, r"expected 3 ranks, as Open MPI 5\.0\.11 started, got 1 of \w+")
                self.assertEqual(done.stderr.count(" error "), 1)
                self.assertFalse(out.exists())

    def test_a_missing_file_is_said_once(self):
        done = run_ranks(3, "train", "--data", self.folder / "no.h5", "--out", self.folder / "never",
                         code=3)
        self.assertEqual(done.stderr.count("no.h5"), 1)


if __name__ == "__main__":
    REFERENCE = sys.argv.pop(2)
    cli_support.main()
