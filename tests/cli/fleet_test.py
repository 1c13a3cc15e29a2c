#!/usr/bin/env python3
"""cohort fleet from outside: what it prints, writes, refuses and how it stops.

fleet_test.py COHORT [-- UNITTEST-OPTION...]
"""

import csv
import json
import signal
import subprocess

import cli_support
from cli_support import ProgramTest, left_s, run, wait_until, worked_s

FLEET = """
[cluster]
nodes = 2
[defaults]
data = "{data}"
model = "softmax"
time-as = "resnet50"
batch = 10
lr = 0.02
samples = 2400
eval-every-samples = 400
workers = 4
[[job]]
name = "hit"
target-accuracy = 0.7
[[job]]
name = "miss"
target-accuracy = 0.999
samples = 800
lr = 1e-6
[[job]]
name = "large"
workers = 16
arrival = 1
arch = "ring"
"""
TIME_ONLY = "[cluster]\nnodes = 1\n[defaults]\nno-train = true\ntime-as = \"resnet50\"\nworkers = 8\n"


class Fleet(ProgramTest):

    def file(self, text):
        path = self.folder / f"{self.id().rsplit('.', 1)[-1]}.toml"
        path.write_text(text.format(data=self.data), encoding="utf-8")
        return path

    def record(self):
        return json.loads((self.out() / "fleet.json").read_text(encoding="utf-8"))

    def test_jobs_share_a_cluster_and_are_recorded(self):
        done = run("fleet", self.file(FLEET), "--out", self.out(), "--label", "here")
        self.assertIn("VIRTUAL TIME", done.stderr)
        self.assertIn("1 job missed the target", done.stdout)
        record = self.record()
        self.assertEqual(record["label"], "here")
        hit, miss, large = record["jobs"]
        self.assertEqual((hit["state"], miss["state"], large["state"]), ("target", "budget", "budget"))
        self.assertGreaterEqual(hit["accuracy"], 0.7)
        self.assertEqual((hit["missed"], miss["missed"], large["missed"]), (False, True, False))
        self.assertEqual(miss["tta_s"], miss["completion_s"])
        self.assertEqual(large["start_s"], max(hit["end_s"], miss["end_s"]), "it needs all devices")
        self.assertEqual(large["worker_nodes"], [0] * 8 + [1] * 8)
        self.assertEqual(record["summary"]["missed"], 1)
        self.assertEqual(record["makespan_s"], large["end_s"])
        for point in record["use"]:
            for name in ("devices", "cores", "rx", "tx"):
                self.assertEqual(len(point[name]), 2)
                self.assertLess(max(point[name]), 1.0001)
        run("fleet", self.file(FLEET), "--out", self.out(), code=2)
        again = run("fleet", self.file(FLEET), "--out", self.out(), "--overwrite", "--threads", 1)
        self.assertIn(record["digest"], again.stderr, "the same digest")

    def test_a_failed_job_counts_in_the_exit_code(self):
        text = FLEET + "[[job]]\nname = \"wild\"\nlr = 1e30\nmodel = \"smallcnn\"\nworkers = 2\n"
        done = run("fleet", self.file(text), "--out", self.out(), code=101)
        self.assertIn("job 'wild' failed", done.stderr)
        states = {job["name"]: job["state"] for job in self.record()["jobs"]}
        self.assertEqual(states["wild"], "failed")
        self.assertEqual(states["large"], "budget", "the others go on")

    def test_keys_are_replaced_from_the_command_line(self):
        run("fleet", self.file(FLEET), "--out", self.out(), "--set", "defaults.mode=lb-bsp", "--set",
            "cluster.nodes=3", "--set", "defaults.samples=800")
        record = self.record()
        self.assertEqual(record["nodes"], 3)
        self.assertEqual({job["mode"] for job in record["jobs"]}, {"lb-bsp"})
        self.assertIn(["defaults.samples", "800"], record["settings"])

    def test_two_fleets_make_a_page(self):
        text = TIME_ONLY.replace("workers = 8", "workers = 4\nsamples = 4000")
        file = self.file(text + "[[job]]\nname = \"a\"\n[[job]]\nname = \"b\"\n")
        self.out().mkdir()
        one, two, page = (self.out() / name for name in ("one", "two", "page.html"))
        run("fleet", file, "--out", one)
        run("fleet", file, "--out", two, "--label", "ours", "--set", "defaults.mode=asgd")
        run("report", one, two, "--out", page)
        html = page.read_text(encoding="utf-8")
        self.assertRegex(html, "<h1 class=\"sentence\">ours: mean completion time .* that of one over 2 jobs")
        self.assertIn("<code>defaults.mode=asgd</code>", html)
        jobs = list(csv.DictReader((self.out() / "fleet-jobs.csv").open(encoding="utf-8")))
        self.assertEqual([(job["label"], job["job"], job["mode"]) for job in jobs],
                         [("one", "a", "ssgd"), ("one", "b", "ssgd"), ("ours", "a", "asgd"), ("ours", "b", "asgd")])
        run("report", two)
        self.assertIn("<h1 class=\"sentence\">2 jobs on 1 node of 8 devices: ", (two / "report.html").read_text(encoding="utf-8"))
        self.assertIn("is no fleet, but others are", run("report", one, self.out(), code=2).stderr)
        self.assertIn("or a fleet's fleet.json", run("report", self.out(), code=3).stderr)
        self.assertIn("two results of one label and seed", run("report", one, one, code=2).stderr)
        (two / "fleet-jobs.csv").write_text("mine", encoding="utf-8")
        self.assertIn("fleet-jobs.csv", run("report", two, code=2).stderr)

    def test_wrong_files_start_nothing(self):
        for text, code, words in (
                (FLEET.replace("workers = 16", "workers = 17"), 2, "job 'large'] the job can never start"),
                (FLEET.replace("arrival = 1", "arrival = -1"), 2, "line 24, job 'large', arrival]"),
                (FLEET.replace("{data}", "missing.h5"), 3, "job 'hit'] [missing.h5]"),
                (FLEET.replace("[cluster]", "[cluster"), 2, "line 2]"),
                (FLEET + "[real]\nlr = 0.1\n", 2, "real.lr] an option of virtual jobs too"),
                (FLEET + "[real]\nresume = true\n", 2, "expected cohort fleet --resume"),
                (FLEET + "[real]\ndevice = \"gpu1\"\n", 2, "real.device] the value cannot be used; expected auto, cpu, cuda or"),
                (FLEET + "[real]\nloader-threads = \"x\"\n", 2, "real.loader-threads] the value cannot be used")):
            done = run("fleet", self.file(text), "--out", self.out(), code=code)
            self.assertIn(words, done.stderr)
            self.assertFalse(self.out().exists())
        wrong = run("fleet", self.file(FLEET), "--set", "defaults.batch=-1", code=2)
        self.assertIn("[--set defaults.batch] the value", wrong.stderr)
        self.assertIn("a file of jobs is needed", run("fleet", code=2).stderr)
        self.assertIn("nothing to resume", run("fleet", self.file(FLEET), "--resume", code=2).stderr)

    def test_a_signal_ends_it_with_what_there_is(self):
        text = TIME_ONLY + "samples = 100000000000\n[[job]]\nname = \"a\"\n[[job]]\nname = \"b\"\n"
        process = subprocess.Popen(
            [str(cli_support.PROGRAM), "fleet", str(self.file(text)), "--out", str(self.out())],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: worked_s(process) > 0.5, "virtual time goes on", lambda: process.poll() is None)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=left_s())
        self.assertEqual(process.returncode, 75, log)
        record = self.record()
        self.assertTrue(record["stopped"])
        self.assertEqual([job["state"] for job in record["jobs"]], ["stopped", "waiting"])
        self.assertGreater(record["jobs"][0]["samples"], 0)

    def test_a_stopped_fleet_is_resumed_to_the_same_result(self):
        file = self.file(TIME_ONLY + "samples = 40000\n[[job]]\nname = \"a\"\n[[job]]\nname = \"b\"\n")
        run("fleet", file, "--out", self.out())
        whole = self.record()
        again = run("fleet", file, "--out", self.out(), "--resume")
        self.assertIn("is whole: nothing to resume", again.stderr)
        path = self.out() / "fleet.json"
        path.write_text(json.dumps({**whole, "stopped": True, "digest": "0" * 16}), encoding="utf-8")
        self.assertIn("was stopped", run("fleet", file, "--out", self.out(), "--resume").stderr)
        self.assertEqual(self.record()["digest"], whole["digest"])
        self.assertIn("the result of another fleet", run("fleet", file, "--out", self.out(), "--resume", "--set",
                                                         "cluster.nodes=2", code=2).stderr)


if __name__ == "__main__":
    cli_support.main()
