#!/usr/bin/env python3
"""tests/run.sh and jobs/quickstart.sh with tools of the test's own in place of CMake's: what is built and run, that one
does not undo the other's build, and how wrong options end.   run_test.py"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support/core"))
from guard import left_s  # noqa: E402

# Notes its words; configuring leaves a cache as CMake does.
TOOL = r'''#!/bin/bash
echo "${0##*/} $*" >>calls
case "${0##*/} $*" in
    "cmake --preset"*)
        mkdir -p "build/$2" && tests=ON
        [[ $2 != release || $* == *-DCOHORT_BUILD_TESTS=ON* ]] || tests=OFF
        echo "COHORT_BUILD_TESTS:BOOL=$tests" >"build/$2/CMakeCache.txt" ;;
    "ctest --help") exec "$REAL_CTEST" --help ;;
    *--print-labels*) echo '  fast'; sleep 0.1; echo '  smoke' ;;
    ctest*) echo "100% tests passed, 0 tests failed out of 7"; echo "Total Test time"; exit "${CTEST_CODE:-0}" ;;
esac
'''


class Run(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-run-")
        self.addCleanup(temporary.cleanup)
        self.tree = pathlib.Path(temporary.name)
        for folder in ("jobs", "tests", "tools"):
            (self.tree / folder).mkdir()
        for file in ("tests/run.sh", "jobs/quickstart.sh", "CMakePresets.json"):
            shutil.copy(ROOT / file, self.tree / file)
        for tool in ("jobs/install_deps.sh", "tools/cmake", "tools/ctest", "tools/ccache"):
            (self.tree / tool).write_text(TOOL, encoding="utf-8")
            (self.tree / tool).chmod(0o755)

    def call(self, script, *options, code=0, **variables):
        """Runs a script; returns the calls of tools, without those that only ask, and what it said."""
        (self.tree / "calls").unlink(missing_ok=True)
        done = subprocess.run(
            [self.tree / script, *options], text=True, capture_output=True, check=False, timeout=left_s(),
            env={**os.environ, "PATH": f"{self.tree}/tools:{os.environ['PATH']}", "REAL_CTEST": shutil.which("ctest"),
                 **variables})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        calls = self.tree / "calls"
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        return [line for line in lines if "--help" not in line and "--print-labels" not in line], done.stdout + done.stderr

    def configured(self, calls):
        (line,) = [call for call in calls if call.startswith("cmake --preset")]
        return line

    def test_without_options_a_part_is_built_and_run(self):
        calls, said = self.call("tests/run.sh")
        self.assertEqual(self.configured(calls).split()[2:4], ["release", "-DCOHORT_BUILD_TESTS=ON"])
        self.assertRegex(calls[2], "^cmake --build build/release .*--target smoke_tests$")
        self.assertRegex(calls[3], r"^ctest --test-dir build/release .*-L \^smoke\$")
        self.assertRegex(said.splitlines()[-1], "^100% tests passed, 0 tests failed out of ")

    def test_any_option_means_all_tests(self):
        for options, preset in ((["--all"], "ci"), (["-R", "core_"], "ci"), (["--preset", "asan"], "asan")):
            calls, _ = self.call("tests/run.sh", *options)
            self.assertEqual(self.configured(calls).split()[2], preset)
            self.assertNotIn("--target", calls[2])
            self.assertNotIn("-L ", calls[3])
            self.assertIn("-LE ^long$", calls[3])
        self.assertIn("-L ^fast$", self.call("tests/run.sh", "--label", "fast", "--repeat", "until-fail:3", "-j4")[0][3])

    def test_neither_command_undoes_the_other_s_build(self):
        self.assertIn("LAUNCHER=ccache", self.configured(self.call("tests/run.sh")[0]))
        again = self.configured(self.call("tests/run.sh")[0])
        quick = self.configured(self.call("jobs/quickstart.sh", code=127)[0])  # there is no program
        for line in (again, quick):
            self.assertIn("-DCOHORT_BUILD_TESTS=ON", line)
            self.assertNotIn("LAUNCHER", line)

    def test_a_build_that_began_without_ccache_goes_on_without(self):
        (self.tree / "build/release").mkdir(parents=True)
        (self.tree / "build/release/CMakeCache.txt").write_text("COHORT_BUILD_TESTS:BOOL=OFF\n", encoding="utf-8")
        quick = self.configured(self.call("jobs/quickstart.sh", code=127)[0])
        self.assertNotIn("COHORT_BUILD_TESTS", quick)
        for line in (quick, self.configured(self.call("tests/run.sh")[0])):
            self.assertNotIn("LAUNCHER", line)

    def test_the_exit_code_is_ctest_s(self):
        self.assertIn("tests passed", self.call("tests/run.sh", code=8, CTEST_CODE="8")[1])

    def test_wrong_options_are_named_and_build_nothing(self):
        for options, words in ((["--lable", "fast"], "the option '--lable'"), (["--preset"], "--preset needs a value"),
                               (["--preset", "quick"], "no preset 'quick'"), (["fast"], "'fast' is no option"),
                               (["--label", "quick"], "no test has the label 'quick'")):
            calls, said = self.call("tests/run.sh", *options, code=2)
            self.assertIn(words, said)
            self.assertIn("tests/run.sh --help", said)
            self.assertFalse([call for call in calls if "--build" in call])
        self.assertIn("--all", self.call("tests/run.sh", "--help")[1])


if __name__ == "__main__":
    unittest.main()
