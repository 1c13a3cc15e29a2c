#!/usr/bin/env python3
"""The scripts for GPU machines, with programs of the test's own in place of the real ones: what is packed, and that a
call keeps its records and its limit whatever its programs do. run_test.py BUILD-FOLDER"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import left_s, wait_until  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv.pop(1))

BENCH = '''#!/bin/bash
case "$*" in
    *optimizer*) echo "no such rule" >&2; exit 5 ;;
    *--profile*) echo '{"bench": "step", "device": "cpu"}'; [[ -e slow ]] && sleep 3600; exit 0 ;;
    *) echo '{"bench": "step", "on_device": true}' ;;
esac
'''
TEST = '''#!/bin/bash
echo "[  PASSED  ] 3 tests."
[[ $0 != *exact* ]] || { echo "[  FAILED  ] Some.Test"; exit 1; }
'''
COHORT = '''#!/bin/bash
[[ $1 != bench ]] || echo '{"bench":"engine","device":"cpu"}'
while (($# > 1)); do
    [[ $1 != --out ]] || { mkdir -p "$2"; echo '{"event":"summary","test_accuracy":0.97}' >"$2/metrics.jsonl"; }
    shift
done
'''
MPIRUN = '''#!/bin/bash
while [[ $1 != */cohort ]]; do shift; done
exec "$@"
'''
ENTRIES = [("gpu_device_test_cpu", "cpu", "alone", "gpu_device_test"),
           ("gpu_exact_test_cpu", "cpu", "shared", "gpu_exact_test"),
           ("gpu_exact_test_cuda_f32", "gpu", "shared", "gpu_exact_test")]


class Packing(unittest.TestCase):
    def test_programs_libraries_plugins_and_scripts_are_listed_and_there(self):
        done = subprocess.run([HERE / "pack.sh", "--build", BUILD, "--list"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {}
        for line in done.stdout.splitlines():
            place, path = line.split(" ", 1)
            found.setdefault(place, set()).add(pathlib.Path(path).name)
        open_mpi_4 = shutil.which("orted") is not None  # 5 has other daemons, and no plugins
        self.assertLessEqual({"cohort", "gpu_bench", "gpu_accuracy", "gpu_exact_test",
                              *(["orted"] if open_mpi_4 else ["prterun", "prted"])}, found["bin/"])
        self.assertEqual(len(found["bin/mpirun"]), 1)
        self.assertIn("libstdc++.so.6", found["lib/"])
        self.assertTrue(any(name.startswith("libmpi.so") for name in found["lib/"]))
        self.assertNotIn("libc.so.6", found["lib/"])
        if open_mpi_4:
            self.assertLessEqual({"mca_pml_ob1.so", "mca_btl_vader.so", "mca_pmix_ext3x.so"}, found["lib/openmpi/"])
            self.assertNotIn("mca_pml_ucx.so", found["lib/openmpi/"])
        else:
            self.assertIn("libprrte.so.3", found["lib/"])
            self.assertIn("share/prte/", found)
        self.assertEqual({"run.sh", "table.py", "peer.py", "kernels.py"}, found["./"])

    def test_a_folder_without_programs_is_refused(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([HERE / "pack.sh", "--build", empty, "--list"], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("gpu_suite", done.stderr)


class Calls(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("run.sh", "table.py", "peer.py", "kernels.py"):
            shutil.copy(HERE / name, self.root)
        (self.root / "bin").mkdir()
        for name, text in (("gpu_bench", BENCH), ("gpu_device_test", TEST), ("gpu_exact_test", TEST),
                           ("cohort", COHORT), ("mpirun", MPIRUN)):
            program = self.root / "bin" / name
            program.write_text(text)
            program.chmod(0o755)
        (self.root / "entries.tsv").write_text(
            "".join(f"{name}\t{kind}\t{how}\t60\t{program}\t--gtest_filter=*\n"
                    for name, kind, how, program in ENTRIES))
        (self.root / "glibc").write_text("2.17\n")
        (self.root / "version").write_text('cohort 1 "quoted"\n')

    def start(self, call, *options):
        return subprocess.Popen(["bash", self.root / "run.sh", str(call), "--without-gpu", "--python", sys.executable,
                                 *options], cwd=self.root, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, env={}, start_new_session=True)

    def call(self, call, *options):
        process = self.start(call, *options)
        output = process.communicate(timeout=left_s())[0]
        return process.returncode, output

    def records(self):
        path = self.root / "results/results.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def statuses(self):
        return {one["name"]: one["status"] for one in self.records() if one.get("record") in ("stage", "test")}

    def test_the_first_call_has_machine_tests_and_steps_and_a_failure_does_not_end_it(self):
        code, output = self.call(1)
        self.assertEqual(code, 1, output)
        found = self.statuses()
        self.assertEqual(found["machine"], "passed")
        self.assertEqual(found["gpu_device_test_cpu"], "passed")
        self.assertEqual(found["gpu_exact_test_cpu"], "failed")
        self.assertNotIn("gpu_exact_test_cuda_f32", found)
        self.assertIn({"bench": "step", "device": "cpu"}, self.records())
        machine = next(one for one in self.records() if one.get("record") == "machine")
        self.assertEqual(machine["cohort"], 'cohort 1 "quoted"')
        self.assertIn("failed: gpu_exact_test_cpu", output)
        self.assertIn("not measured", output)

    def test_the_second_call_records_the_case_that_fails_and_goes_on(self):
        code, output = self.call(2)
        self.assertEqual(code, 1, output)
        failure = next(one for one in self.records() if one.get("status") == "failed")
        self.assertIn("optimizer", failure["name"])
        self.assertEqual((failure["exit_code"], failure["why"]), (5, "no such rule"))
        self.assertIn({"bench": "step", "on_device": True}, self.records())
        self.assertEqual(self.statuses()["peers"], "skipped")

    def test_the_third_call_trains_and_the_fourth_names_what_it_skips(self):
        self.call(3)
        self.assertEqual(self.statuses()["train staging learns"], "passed")
        self.assertEqual(self.statuses()["train nccl_of_one"], "skipped")
        code, output = self.call(4)
        self.assertEqual(code, 0, output)
        self.assertEqual(self.statuses()["racecheck"], "skipped")

    def test_a_call_ends_within_its_limit(self):
        (self.root / "slow").touch()
        code, _ = self.call(1, "--limit-s", "8")
        self.assertEqual(code, 1)
        self.assertIn("timed out", self.statuses().values())

    def test_what_was_found_before_a_kill_stays(self):
        (self.root / "slow").touch()
        process = self.start(1)
        wait_until(lambda: {"bench": "step", "device": "cpu"} in self.records(), "the first measurement")
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = self.records()
        os.killpg(process.pid, signal.SIGKILL)  # what it had started goes on without it
        process.communicate()
        self.assertIn({"bench": "step", "device": "cpu"}, found)
        self.assertEqual(self.statuses()["gpu_device_test_cpu"], "passed")

    def test_machines_and_words_that_do_not_fit_are_refused(self):
        (self.root / "glibc").write_text("9.99\n")
        code, output = self.call(1)
        self.assertEqual(code, 3)
        self.assertIn("glibc >= 9.99", output)
        self.assertEqual(self.call(7)[0], 2)
        (self.root / "entries.tsv").unlink()
        code, output = self.call(1)
        self.assertEqual(code, 3)
        self.assertIn("pack.sh", output)


if __name__ == "__main__":
    unittest.main()
