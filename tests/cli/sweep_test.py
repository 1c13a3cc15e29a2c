#!/usr/bin/env python3
"""`cohort sweep` and `cohort report` from outside: real simulations, killed and gone on with."""

import csv
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree

import h5py

import cli_support
from cli_support import left_s, run, wait_until

# Eight runs, which take a second and more in all: some tests stop a sweep after its first one.
EXPERIMENT = """title = "Two modes & two patterns"
seeds = [1]
patterns = ["healthy", "persistent:2"]

[job]
data = "nothing.h5"
model = "smallcnn"
time-as = "resnet50"
workers = 4
servers = 2
batch = 10
samples = 20000
eval-every-samples = 20000
target-accuracy = 0.99

[tuning]
lr = [0.05, 0.01]
seeds = [5]

[[mode]]
mode = "ssgd"
reference = true

[[mode]]
name = "asgd, no momentum"
mode = "asgd"
momentum = 0
cites = "J. Dean et al., 2012"
"""

# Of the real clock.
VARYING = ("wall_s", "events_per_s")


def rows_of(folder):
    with open(folder / "results.csv", encoding="utf-8", newline="") as file:
        return [{name: value for name, value in row.items() if name not in VARYING}
                for row in csv.DictReader(file)]


class SweepTest(cli_support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.experiment = cls.folder / "experiment.toml"
        cls.experiment.write_text(EXPERIMENT, encoding="utf-8")
        cls.whole = cls.folder / "whole"
        cls.log = cls.sweep(cls.whole).stderr

    @classmethod
    def arguments(cls, out):
        return ["sweep", cls.experiment, "--out", out, "--set", f"data={cls.data}"]

    @classmethod
    def sweep(cls, out, *more, code=0):
        return run(*cls.arguments(out), *more, code=code)

    def start(self, out):
        """A sweep that has a result and is not done."""
        process = subprocess.Popen(
            [str(cli_support.PROGRAM), *map(str, self.arguments(out)), "--jobs", "1"],
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        wait_until(lambda: list(out.glob("runs/*/result.h5")), "its first result", lambda: process.poll() is None)
        return process

    def test_table_has_a_row_per_run_and_the_tuning_its_choice(self):
        rows = rows_of(self.whole)
        self.assertEqual([(row["mode"], row["pattern"]) for row in rows],
                         [("ssgd", "healthy"), ("ssgd", "persistent:2"),
                          ("asgd, no momentum", "healthy"), ("asgd, no momentum", "persistent:2")])
        with open(self.whole / "tuning.csv", encoding="utf-8", newline="") as file:
            tuning = list(csv.DictReader(file))
        self.assertEqual(len(tuning), 4)
        chosen = {row["mode"]: row["lr"] for row in tuning if row["chosen"] == "1"}
        self.assertEqual({row["mode"]: row["lr"] for row in rows}, chosen)
        self.assertIn("4 of 4 runs of the table are there", self.log)

    def test_commands_of_rows_repeat_them(self):
        row = rows_of(self.whole)[3]
        out = self.out()
        run(*row["command"].split()[1:], "--out", out)
        with h5py.File(self.whole / "results.h5") as file:
            digest = int(file["runs/digest"][3])
            self.assertEqual(file["runs/mode"][()].tobytes().decode().split("\n")[3], row["mode"])
        self.assertEqual(f"{digest:016x}", row["digest"])
        page = run("report", out, "--markdown").stdout
        self.assertIn("| asgd |", page)

    def test_killed_sweep_goes_on_to_the_same_table(self):
        out = self.out()
        process = self.start(out)
        process.kill()
        process.wait()
        log = self.sweep(out).stderr
        found = int(re.search(r"there, (\d+) were before", log).group(1))
        self.assertGreaterEqual(found, 1)
        self.assertLess(found, 8)
        self.assertEqual(rows_of(out), rows_of(self.whole))
        self.assertEqual((out / "tuning.csv").read_text(), (self.whole / "tuning.csv").read_text())

    def test_ctrl_c_ends_the_children_and_keeps_what_is_done(self):
        out = self.out()
        process = self.start(out)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=left_s()), 75)
        self.assertIn("the same command goes on with the rest", process.stderr.read())
        self.sweep(out)
        self.assertEqual(rows_of(out), rows_of(self.whole))

    def test_second_sweep_in_a_folder_is_refused(self):
        out = self.out()
        process = self.start(out)
        self.assertIn("another run writes here", self.sweep(out, code=2).stderr)
        process.kill()
        process.wait()

    def test_dry_run_lists_runs_and_starts_none(self):
        out = self.out()
        lines = self.sweep(out, "--dry-run").stdout.splitlines()
        self.assertEqual(len(lines), 4)  # the rest waits for learning rates
        self.assertTrue(all(line.startswith("missing  cohort simulate ") for line in lines), lines)
        self.assertFalse(out.exists())
        lines = self.sweep(self.whole, "--dry-run").stdout.splitlines()
        self.assertEqual(len(lines), 8)
        self.assertTrue(all(line.startswith("done ") for line in lines), lines)

    def test_failed_runs_are_reported_with_their_last_lines(self):
        out = self.out()
        for search in (self.whole / "runs").glob("*_s5_*"):  # a folder stands where results belong
            (out / "runs" / search.name / "result.h5" / "inside").mkdir(parents=True)
        done = self.sweep(out, code=3)
        self.assertIn("result.h5", done.stderr)
        self.assertNotIn("options:", done.stderr)
        self.assertIn("4 runs failed", done.stderr)
        self.assertEqual(rows_of(out), [])
        self.assertIn("none of 4 runs is there", run("report", out, code=3).stderr)

    def test_files_that_are_missing_are_found_before_the_first_run(self):
        out = self.out()
        table = EXPERIMENT + '[[pattern]]\ntrace = "missing.csv"\n'
        for setting, text, code in (("data=missing.h5", EXPERIMENT, 3),
                                    ("profile=missing.toml", EXPERIMENT, 3),
                                    (f"data={self.data}", table, 3)):
            self.experiment.write_text(text, encoding="utf-8")
            try:
                done = run("sweep", self.experiment, "--out", out, "--set", f"data={self.data}",
                           "--set", setting, "--dry-run", code=code)
            finally:
                self.experiment.write_text(EXPERIMENT, encoding="utf-8")
            self.assertIn("missing", done.stderr)
            self.assertFalse(out.exists())

    def test_page_is_well_formed_and_has_every_mode(self):
        page = self.out().with_suffix(".html")
        run("report", self.whole, "--out", page)
        text = page.read_text(encoding="utf-8")
        root = xml.etree.ElementTree.fromstring(text.split("\n", 1)[1])
        heads = ["".join(head.itertext()) for head in root.iter("th") if head.get("scope") == "row"]
        for mode in ("ssgd", "asgd, no momentum"):
            self.assertGreater(heads.count(mode), 4)
        self.assertEqual(root.find(".//h1").text, "Two modes & two patterns")
        for picture in root.iter("svg"):
            if picture.get("role") == "img":
                self.assertTrue(picture.find("title").text)
                self.assertTrue(picture.find("desc").text)
        for table in root.iter("table"):
            columns = len(table.findall("thead/tr/th"))
            self.assertTrue(all(len(row) == columns for row in table.findall("tbody/tr")))
        for outside in ("http:", "https:", "<script", "src=", "href="):
            self.assertNotIn(outside, text)

    def test_report_takes_a_result_by_any_name_and_from_its_own_folder(self):
        out = self.out()
        first = next((self.whole / "runs").iterdir()) / "result.h5"
        out.mkdir()
        shutil.copy(first, out / "result.h5")
        shutil.copy(first, out / "mine.h5")
        for name in ("result.h5", "mine.h5"):
            subprocess.run([str(cli_support.PROGRAM), "report", name], cwd=out, check=True,
                           capture_output=True)
            self.assertTrue((out / "report.html").exists())
            (out / "report.html").unlink()
        self.assertIn("the same run as in", run("report", out / "result.h5", out / "mine.h5",
                                                code=2).stderr)

    def test_an_option_that_is_none_is_named(self):
        wrong = self.out().with_suffix(".toml")
        wrong.write_text('[job]\nwrokers = 3\n[[mode]]\nmode = "ssgd"\n', encoding="utf-8")
        self.assertIn("line 2, wrokers] 'wrokers' is not an option",
                      run("sweep", wrong, "--out", self.out(), code=2).stderr)


if __name__ == "__main__":
    cli_support.main()
