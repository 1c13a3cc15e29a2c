#!/usr/bin/env python3
"""What jobs/launch.sh says before it starts anything, and what its page says of it.   words_test.py ROOT"""

import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from launch_support import LaunchTest  # noqa: E402


class OtherMpis(LaunchTest):

    def test_mpirun_of_another_mpi(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for says, code in (("HYDRA build details:\n    Version:      5.0.2", 2),
                           ("Intel(R) MPI Library for Linux* OS, Version 2021.19", 2),
                           ("mpirun (Open MPI) 5.0.11", 0)):
            with self.subTest(says):
                (tools / "mpirun").write_text(f"#!/bin/sh\necho '{says}'\n")
                (tools / "mpirun").chmod(0o755)
                done = self.launch("", "--dry-run", code=code,
                                   environment={"PATH": f"{tools}:{os.environ['PATH']}"})
                for text in (f"{tools}/mpirun is not Open MPI's", " ".join(says.split())) if code else ():
                    self.assertIn(text, done.stderr)


class Documentation(LaunchTest):

    def test_every_exit_code_is_in_the_table(self):
        header = (self.root / "include/cohort/core/error.hpp").read_text(encoding="utf-8")
        listed = re.search(r"enum class ExitCode[^{]*\{(.*?)\};", header, re.DOTALL).group(1)
        codes = set(re.findall(r"=\s*(\d+)", listed))
        self.assertGreater(len(codes), 5)
        text = (self.root / "docs/launch.md").read_text(encoding="utf-8")
        rows = set(re.findall(r"^\| (\d+)(?:, \d+)? \|", text, re.MULTILINE))
        self.assertLessEqual(codes, rows)

    def test_every_launcher_option_is_described(self):
        script = (self.root / "jobs/launch.sh").read_text(encoding="utf-8")
        handled = re.search(r"^read_options\(\).*?^}", script, re.DOTALL | re.MULTILINE).group(0)
        options = set(re.findall(r"--[a-z][a-z-]+(?=[ )])", handled)) - {"--placeholder"}
        page = (self.root / "docs/launch.md").read_text(encoding="utf-8")
        self.assertGreater(len(options), 8)
        for option in options:
            self.assertIn(f"`{option}", page)


if __name__ == "__main__":
    LaunchTest.root = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
