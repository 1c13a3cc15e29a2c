#!/usr/bin/env python3
"""The Debian package: made, judged by lintian, installed below a folder, used and removed.

package_test.py COHORT BUILD [-- UNITTEST-OPTION...]
"""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import call, run  # noqa: E402


class Package(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-package-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        build = pathlib.Path(cli_support.MPIRUN[0]).resolve()
        call(["cpack", "--config", build / "CPackConfig.cmake", "-G", "DEB", "-B", cls.folder],
             environment={"DEBFULLNAME": "Tester", "DEBEMAIL": "tester@debian.org"}, cwd=cls.folder)
        cls.file, = cls.folder.glob("cohort_*.deb")

    def field(self, name):
        return call(["dpkg-deb", "--field", self.file, name]).stdout.strip()

    def test_depends_on_what_it_links(self):
        depends = self.field("Depends")
        for library in ("libhdf5", "libdnnl", "libsimdjson", "libzip", "libutf8proc", "libprotobuf", "openmpi-bin", "libc6"):
            self.assertIn(library, depends)
        control = self.folder / "control"
        control.write_text("Source: cohort\n\nPackage: cohort\nArchitecture: any\n")
        call(["dpkg-checkbuilddeps", "-d", depends, control])  # all are installed

    @unittest.skipUnless(shutil.which("lintian"), "lintian is missing")
    def test_lintian_finds_no_error_and_no_warning(self):
        call(["lintian", "--allow-root", "--fail-on", "error,warning", self.file])

    def test_is_installed_used_and_removed(self):
        root = self.folder / "root"
        database = root / "var/lib/dpkg"
        for folder in ("updates", "info", "triggers"):
            (database / folder).mkdir(parents=True)
        (database / "status").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-not-root", "--force-depends", "--log=/dev/null"]
        call([*dpkg, "--install", self.file])
        program = root / "usr/bin/cohort"
        self.assertEqual(call([program, "--version"]).stdout, run("--version").stdout)
        job = ["simulate", "--model", "lenet", "--no-train", "--workers", "4", "--samples", "20000"]
        digest = re.compile(r"digest (\w+)").findall
        self.assertEqual(digest(call([program, *job]).stderr), digest(run(*job).stderr))
        self.assertIn("cohort simulate",
                      call([root / "usr/bin/cohort-launch", "-n", 1, "--dry-run", "--", "simulate"]).stdout)
        call([*dpkg, "--purge", "cohort"])
        left = [str(path) for path in root.rglob("*") if not path.is_relative_to(database) and not path.is_dir()]
        self.assertEqual(left, [])


if __name__ == "__main__":
    cli_support.main()
