#!/usr/bin/env python3
"""cohort simulate from outside: what it prints, writes, refuses and how it stops.

simulate_test.py COHORT [-- UNITTEST-OPTION...]
"""

import json
import resource
import signal
import subprocess

import h5py

import cli_support
from cli_support import ProgramTest, left_s, run, wait_until, worked_s

TIME_ONLY = ("--no-train", "--time-as", "resnet50", "--samples", 20000)


def summary(*arguments, **options):
    """Runs a simulation; its summary, whose accounts must add up, and what it logged."""
    done = run("simulate", "--json", *arguments, **options)
    record = json.loads(done.stdout)
    assert record["event"] == "summary", record
    assert record["samples_leased"] == record["samples_applied"] + record["samples_returned"]
    assert record["samples_outstanding"] == 0, record
    assert sum(one["samples"] for one in record["by_worker"]) == record["samples_applied"]
    return record, done.stderr


class Simulate(ProgramTest):

    def learn(self, *arguments, workers=4, batch=10):
        return summary("--data", self.data, "--model", "softmax", "--time-as", "resnet50",
                       "--workers", workers, "--batch", batch, "--samples", 2400,
                       "--eval-every-samples", 400, *arguments)

    def test_time_alone_needs_no_data(self):
        record, log = summary(*TIME_ONLY, "--mode", "static:6", "--pattern", "persistent:2")
        self.assertIn("VIRTUAL TIME", log)
        self.assertIn("NO TRAINING", log)
        self.assertEqual((record["mode"], record["arch"], record["stop_reason"]),
                         ("static:6", "servers", "budget"))
        self.assertEqual(record["samples_applied"], 20000)
        self.assertIsNone(record["test_accuracy"])
        self.assertIsNone(record["tta_virtual_s"])
        self.assertAlmostEqual(record["samples_per_s"],
                               record["samples_applied"] / record["virtual_s"])
        self.assertGreater(record["ideal_samples_s"], record["samples_per_s"])
        self.assertEqual(len(record["by_server"]), 1)
        self.assertGreater(record["by_server"][0]["rx_bytes"], 1e8)
        self.assertGreater(record["events"], 1000)
        slow = max(record["by_worker"], key=lambda worker: worker["own_s"])
        self.assertLess(slow["samples"], 20000 / 8, "the slow worker does less")

    def test_modes_that_compare_gradients_warn_without_training(self):
        self.assertEqual(summary(*TIME_ONLY, "--mode", "zeno++")[1].count("accepts every push"), 1)
        self.assertNotIn("accepts every push", summary(*TIME_ONLY, "--mode", "asgd")[1])
        self.assertNotIn("accepts every push", self.learn("--mode", "zeno++")[1])

    def test_it_learns_and_stops_at_the_target(self):
        record, log = self.learn("--target-accuracy", 0.9, "--mode", "asgd", "--lr", 0.02)
        self.assertEqual(record["stop_reason"], "target")
        self.assertGreaterEqual(record["test_accuracy"], 0.9)
        self.assertEqual(record["tta_virtual_s"], record["virtual_s"])
        self.assertEqual(record["samples_to_target"], record["samples_applied"])
        self.assertIn("test after 400 samples", log)
        self.assertIn("target accuracy 0.9 reached after", log)
        self.assertIn("% of the time of", log)
        self.assertGreaterEqual(record["samples_computed"], record["samples_applied"])
        self.assertGreater(record["engine_share"], 0)
        self.assertLessEqual(record["engine_share"], 1.05)

    def test_the_mean_of_the_parameters_has_a_curve_of_its_own_and_may_decide(self):
        out = self.out()
        record, _ = self.learn("--eval-average", 5, "--target-on", "average", "--target-accuracy",
                               0.9, "--lr", 0.02, "--out", out)
        self.assertEqual(record["stop_reason"], "target")
        with h5py.File(out / "result.h5") as file:
            mean = file["evaluations/average_accuracy"][:]
            self.assertEqual(len(mean), len(file["evaluations/accuracy"][:]))
        self.assertTrue((mean[:-1] < 0.9).all() and mean[-1] >= 0.9, mean)

    def test_one_virtual_worker_learns_what_a_real_one_does(self):
        for arch in ("servers", "ring"):
            record, _ = self.learn("--arch", arch, "--lr", 0.0005, workers=1, batch=20)
            run("train", "--data", self.data, "--out", self.out(), "--model", "softmax", "--batch",
                20, "--samples", 2400, "--arch", "ring", "--threads", 1, "--deterministic",
                "--lr", 0.0005, "--overwrite")
            real = cli_support.events(self.out(), "summary")[-1]
            self.assertEqual(record["updates"], real["updates"])
            self.assertGreater(real["test_loss"], 0.01)
            self.assertAlmostEqual(record["test_loss"], real["test_loss"], delta=1e-5)
            self.assertEqual(record["test_accuracy"], real["test_accuracy"])

    def test_the_command_of_a_result_repeats_it(self):
        for extra in (("--mode", "dynamic"), ("--arch", "ring", "--mode", "ring:3")):
            first, _ = self.learn("--pattern", "storm", "--pattern-seed", 3, "--threads", 1, *extra)
            words = first["command"].split()
            self.assertEqual(words[:2], ["cohort", "simulate"])
            second, _ = summary(*words[2:])
            self.assertEqual((first["digest"], first["events"]),
                             (second["digest"], second["events"]))
            other, _ = self.learn("--pattern", "storm", "--pattern-seed", 4, *extra)
            self.assertNotEqual(first["digest"], other["digest"])

    def test_a_result_is_a_file_that_is_not_overwritten_unasked(self):
        out = self.out()
        record, log = summary(*TIME_ONLY, "--out", out, "--arch", "ring")
        with h5py.File(out / "result.h5") as file:
            self.assertEqual(f"{file.attrs['digest']:016x}", record["digest"])
            self.assertEqual(file["options"].attrs["--arch"].decode(), "ring")
            self.assertEqual(file["workers/samples"][:].sum(), 20000)
            self.assertGreater(file.attrs["peak_bytes"], 0)
        before = (out / "result.h5").read_bytes()
        refused = run("simulate", *TIME_ONLY, "--out", out, code=2)
        self.assertIn("--overwrite", refused.stderr)
        self.assertNotIn("VIRTUAL TIME", refused.stderr, "said before anything is begun")
        self.assertEqual((out / "result.h5").read_bytes(), before)
        summary(*TIME_ONLY, "--out", out, "--overwrite")
        self.assertNotEqual((out / "result.h5").read_bytes(), before)

    def test_a_trace_takes_the_place_of_a_pattern(self):
        trace = self.folder / "trace.csv"
        trace.write_text("time_s,target,device_share\n0,worker:5,0.5\n", encoding="utf-8")
        slow, _ = summary(*TIME_ONLY, "--arch", "ring", "--trace", trace)
        healthy, _ = summary(*TIME_ONLY, "--arch", "ring")
        self.assertGreater(slow["virtual_s"], 1.5 * healthy["virtual_s"])
        self.assertEqual(slow["pattern"], str(trace))

    def test_a_config_file_gives_options(self):
        config = self.folder / "job.toml"
        config.write_text(run("simulate", *TIME_ONLY, "--workers", 3, "--dump-config").stdout,
                          encoding="utf-8")
        record, _ = summary("--config", config)
        self.assertEqual((record["workers"], record["samples_applied"]), (3, 20000))

    def test_a_full_disk_leaves_nothing_half_written(self):
        out = self.out()
        run("simulate", *TIME_ONLY, "--out", out, code=3,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertEqual(list(out.iterdir()), [])

    def test_a_signal_ends_it_with_what_there_is(self):
        out = self.out()
        for stop in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                [str(cli_support.PROGRAM), "simulate", "--no-train", "--time-as", "resnet50",
                 "--samples", "100000000000", "--out", str(out), "--json", "--overwrite"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_until(lambda: worked_s(process) > 0.5, "virtual time goes on", lambda: process.poll() is None)
            process.send_signal(stop)
            text, log = process.communicate(timeout=left_s())
            self.assertEqual(process.returncode, 75, log)
            record = json.loads(text)
            self.assertEqual(record["stop_reason"], "signal")
            self.assertGreater(record["samples_applied"], 0)
            with h5py.File(out / "result.h5") as file:
                self.assertEqual(file.attrs["stop_reason"].decode(), "signal")

    def test_progress_is_told_now_and_then(self):
        log = self.folder / "progress"
        with log.open("w") as messages, subprocess.Popen(
                [str(cli_support.PROGRAM), "simulate", "--no-train", "--time-as", "resnet50",
                 "--samples", "100000000000"], stdout=subprocess.DEVNULL, stderr=messages) as process:
            wait_until(lambda: "events/s" in log.read_text(), "a line of progress", lambda: process.poll() is None)
            process.send_signal(signal.SIGINT)
        self.assertRegex(log.read_text(), r"/100,000,000,000  \d+\.\d\d s virtual  eta .* events/s")

    def test_it_is_no_job_for_mpirun(self):
        environment = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0",
                       "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
        done = run("simulate", *TIME_ONLY, code=2, environment=environment)
        self.assertIn("mpirun", done.stderr)


if __name__ == "__main__":
    cli_support.main()
