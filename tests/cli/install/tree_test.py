#!/usr/bin/env python3
"""What `cmake --install` puts down works where it lies.

tree_test.py COHORT BUILD [-- UNITTEST-OPTION...]
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import call, run  # noqa: E402

COMPLETE = r'''
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMPREPLY=()
_cohort "$2" || true
printf '%s\n' "${COMPREPLY[@]}"
'''
# Prints what a module file sets, with the commands of Environment Modules.
MODULE = '''
set ModulesCurrentModulefile [lindex $argv 0]
proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {name value} { puts "$name $value" }
proc setenv {name value} { puts "$name $value" }
source $ModulesCurrentModulefile
'''


class Installed(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-install-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name).resolve()
        cls.prefix = cls.folder / "prefix"
        call(["cmake", "--install", cli_support.MPIRUN[0], "--prefix", cls.prefix, "--component", "program"])
        cls.launcher = cls.prefix / "bin/cohort-launch"

    def complete(self, *words):
        file = self.prefix / "share/bash-completion/completions" / words[0]
        return set(call(["bash", "-c", COMPLETE, "bash", file, *words]).stdout.split())

    def test_the_launcher_finds_its_parts_and_the_program(self):
        command = call([self.launcher, "-n", 2, "--dry-run", "--", "info"], environment={"COHORT": ""}).stdout
        self.assertIn(f" {self.prefix}/bin/cohort info", command)
        done = call([self.launcher, "-n", 2, "--", "bench", "exchange", "--op", "allreduce", "--bytes", 1000, "--json"],
                    cwd=self.folder)
        self.assertIn('"ranks":2', done.stdout.replace(" ", ""))

    def test_templates_find_the_launcher(self):
        for name, command in (("train", "train"), ("fleet", "fleet")):
            done = call(["bash", self.prefix / f"share/cohort/slurm/{name}.sbatch", "--help"], cwd=self.folder,
                        environment={"PATH": f"{self.prefix}/bin:/usr/bin:/bin", "SLURM_SUBMIT_DIR": str(self.folder),
                                     "COHORT_LAUNCH_OPTIONS": "-n 1 --launcher mpirun --dry-run"})
            self.assertIn(f"{self.prefix}/bin/cohort {command} --help", done.stdout)

    @unittest.skipUnless(shutil.which("man"), "man is missing")
    def test_manual_pages_are_whole_and_without_warnings(self):
        for name, words in (("cohort", ["cohort simulate", "cohort bench exchange", "--model", "cohort-launch(1)"]),
                            ("cohort-launch", ["cohort-launch -n 4 -- train", "--hostfile FILE"])):
            page = self.prefix / f"share/man/man1/{name}.1"
            done = call(["man", "--warnings", "--encoding=UTF-8", "--local-file", page],
                        environment={"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""})
            self.assertEqual(done.stderr, "")
            text = re.sub(r"\s+", " ", done.stdout)
            for word in words:
                self.assertIn(word, text)

    def test_completion_knows_commands_options_and_values(self):
        self.assertIn("simulate", self.complete("cohort", "s"))
        self.assertEqual(self.complete("cohort", "bench", ""), {"engine", "exchange"})
        self.assertIn("--target-accuracy", self.complete("cohort", "train", "--tar"))
        self.assertIn("--bytes", self.complete("cohort", "bench", "exchange", "--"))
        self.assertEqual(self.complete("cohort", "train", "--arch", ""), {"ring", "servers"})
        self.assertEqual(self.complete("cohort", "train", "--arch", "=", "r"), {"ring"})
        self.assertEqual(self.complete("cohort", "train", "--arch", "="), {"ring", "servers"})
        self.assertEqual(self.complete("cohort", "simulate", "--mode", "ada"), {"adadelay", "adaptive"})
        self.assertEqual(self.complete("cohort", "train", "--model", "resnet2"), {"resnet20"})
        self.assertEqual(self.complete("cohort", "train", "--lr", ""), set())
        self.assertEqual(self.complete("cohort", "nonsense", ""), set())
        (self.folder / "data.h5").touch()
        self.assertEqual(self.complete("cohort", "train", "--data", f"{self.folder}/da"), {f"{self.folder}/data.h5"})
        self.assertEqual(self.complete("cohort-launch", "-n", "2", "--", "train", "--arch", "s"), {"servers"})
        self.assertEqual(self.complete("cohort-launch", "-"), set())

    @unittest.skipUnless(shutil.which("tclsh"), "tclsh is missing")
    def test_the_module_file_finds_its_installation(self):
        files = list((self.prefix / "share/cohort/modulefiles/cohort").iterdir())
        self.assertEqual(len(files), 1)
        script = self.folder / "module.tcl"
        script.write_text(MODULE)
        found = dict(line.split() for line in call(["tclsh", script, files[0]]).stdout.splitlines())
        self.assertEqual(found["PATH"], f"{self.prefix}/bin")
        self.assertEqual(found["COHORT_ROOT"], f"{self.prefix}/share/cohort")

    def test_links_of_the_pages_lead_to_what_is_installed(self):
        pages = [page for page in (self.prefix / "share/doc/cohort").rglob("*.md") if page.name != "CHANGELOG.md"]
        self.assertGreater(len(pages), 20)
        for page in pages:
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
                self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")

    def test_every_option_is_in_each_text(self):
        names = set(re.findall(r"^\| `(?:[^`]*,)?(--[a-z0-9-]+)", run("options", "--markdown").stdout, re.M))
        self.assertGreater(len(names), 100)
        page = run("options", "--man").stdout.replace("\\-", "-")
        completion = run("options", "--bash").stdout
        for name in names:
            self.assertIn(name, page)
            self.assertIn(name, completion)
        subprocess.run(["bash", "-n"], input=completion, text=True, check=True)
        self.assertEqual(run("options", "--nonsense", code=2).stdout, "")


if __name__ == "__main__":
    cli_support.main()
