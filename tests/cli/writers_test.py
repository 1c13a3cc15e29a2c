#!/usr/bin/env python3
"""What commands do at the place of the files that they write.   writers_test.py COHORT

Every command that writes a file, at every kind of place: only regular files are replaced, with
--overwrite, and never an input. In output folders that others may write into no link is followed.
"""

import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

import cli_support
from cli_support import ProgramTest, left_s, run

USAGE, FILE = 2, 3
NOBODY = 65534
SIMULATE = ("simulate", "--no-train", "--model", "smallcnn", "--samples", 2000, "--workers", 2)


def fingerprint(path):
    """What must stay as it is: kind, inode, and of files, content."""
    facts = os.lstat(path)
    content = None
    if stat.S_ISLNK(facts.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(facts.st_mode):
        content = pathlib.Path(path).read_bytes()
    return facts.st_mode, facts.st_ino, facts.st_dev, content


class Writers(ProgramTest):
    """The file that a command is asked for by name."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.csv = cls.folder / "train.csv"
        cls.csv.write_text("label,a,b\n" + "0,1,2\n1,3,4\n" * 8)
        cls.trace = cls.folder / "input-trace.csv"
        cls.trace.write_text("time_s,target,device_share\n0,worker:0,0.5\n")
        cls.recorded = cls.folder / "recorded"
        run("simulate", "--no-train", "--record-load", "--time-as", "resnet50", "--servers", 8,
            "--pattern", "onoff:3", "--samples", 150000, "--out", cls.recorded)
        cls.star = cls.folder / "star"
        run("simulate", "--no-train", "--mode", "star-ml", "--time-as", "resnet50", "--pattern",
            "onoff:2", "--servers", 2, "--samples", 150000, "--out", cls.star)
        cls.like = cls.folder / "like.toml"
        quick = ("--batch", 8, "--repetitions", 7, "--threads", 1)
        run("profile", "--model", "softmax", "--input", "1x4x4", *quick, "--out", cls.like)
        # name: (command, option of the file, one of its inputs)
        cls.commands = {
            "import": (("import", "--format", "csv", "--input", cls.csv, "--test-fraction", 0.5),
                       "--output", cls.csv),
            "report": (("report", cls.recorded), "--out", cls.recorded / "result.h5"),
            "trace make": (("trace", "make", "--pattern", "half:2"), "--out", None),
            "trace show": (("trace", "show", cls.trace), "--svg", cls.trace),
            "profile": (("profile", "--model", "softmax", "--input", "1x4x4", "--like", cls.like,
                         *quick), "--out", cls.like),
            "predictor train": (("predictor", "train", cls.recorded, "--epochs", 1, "--stride",
                                 48), "--out", cls.recorded / "result.h5"),
            "chooser train": (("chooser", "train", cls.star), "--out", cls.star / "result.h5"),
        }

    def setUp(self):
        self.place = self.out()
        self.place.mkdir()

    def refused(self, name, target, code, *more, untouched=()):
        """Runs a command and sees it refuse without a change to the target and others."""
        command, option, _ = self.commands[name]
        paths = [target, *untouched]
        before = [fingerprint(path) for path in paths]
        done = run(*command, option, target, *more, code=code)
        self.assertEqual([fingerprint(path) for path in paths], before)
        self.assertEqual([path for path in self.place.rglob("*") if ".part-" in path.name], [])
        return done.stderr

    def each(self, test):
        """Calls the test with each command's name and a place of its own."""
        for name in self.commands:
            with self.subTest(command=name):
                test(name, self.place / name.replace(" ", "-"))

    def replaces(self, name, target):
        """Sees the command replace a file that holds "mine"."""
        command, option, _ = self.commands[name]
        run(*command, option, target, "--overwrite")
        self.assertNotEqual(target.read_bytes(), b"mine")

    def test_an_existing_file_needs_overwrite(self):
        def test(name, target):
            target.write_text("mine")
            self.assertIn("--overwrite", self.refused(name, target, USAGE))
            self.replaces(name, target)

        self.each(test)

    def test_what_is_no_regular_file_stays(self):
        def test(name, target):
            target.mkdir()
            self.assertIn("folder", self.refused(name, target, FILE, "--overwrite"))
            target.rmdir()
            os.mkfifo(target)
            self.assertIn("pipe", self.refused(name, target, FILE, "--overwrite"))
            pipe = self.place / "link-to-a-pipe"
            pipe.symlink_to(target)
            self.refused(name, pipe, FILE, "--overwrite", untouched=[target])
            pipe.unlink()

        self.each(test)

    def test_a_device_stays(self):
        def test(name, target):
            try:
                os.mknod(target, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            except PermissionError:
                self.skipTest("no permission to make device nodes")
            self.assertIn("device", self.refused(name, target, FILE, "--overwrite"))
            link = self.place / "link-to-a-device"
            link.symlink_to(target)
            self.refused(name, link, FILE, "--overwrite", untouched=[target])
            link.unlink()

        self.each(test)

    def test_a_link_is_followed_to_a_regular_file_only(self):
        elsewhere = self.place / "elsewhere"
        elsewhere.mkdir()
        def test(name, target):
            behind = elsewhere / target.name
            target.symlink_to(behind)
            self.assertIn("leads nowhere", self.refused(name, target, FILE, "--overwrite"))
            self.assertFalse(behind.exists())
            behind.write_text("mine")
            self.refused(name, target, USAGE, untouched=[behind])
            self.replaces(name, target)
            self.assertTrue(target.is_symlink())

        self.each(test)

    def test_an_input_is_never_the_output(self):
        def test(name, _):
            _, _, source = self.commands[name]
            if source is None:
                return
            names = [source, self.place / "link", self.place / "hard-link"]
            names[1].symlink_to(source)
            os.link(source, names[2])
            for target in names:
                text = self.refused(name, target, USAGE, "--overwrite", untouched=[source])
                self.assertIn("reads", text)
            names[1].unlink()
            names[2].unlink()

        self.each(test)

    def test_the_config_file_is_an_input(self):
        def test(name, target):
            target.write_text("overwrite = true\n")
            self.assertIn("reads", self.refused(name, target, USAGE, "--config", target))

        self.each(test)

    def test_a_folder_that_cannot_be_written_is_said_before_the_work(self):
        def test(name, target):
            command, option, _ = self.commands[name]
            done = run(*command, option, self.place / "missing" / target.name, code=FILE)
            self.assertIn("missing", done.stderr)

        self.each(test)

    def test_report_replaces_its_own_page_only(self):
        page = self.recorded / "report.html"
        for _ in range(2):
            run("report", self.recorded)
        page.write_text("<!DOCTYPE html>\n<p>mine\n")
        self.assertIn("--overwrite", run("report", self.recorded, code=USAGE).stderr)
        self.assertIn("mine", page.read_text())
        run("report", self.recorded, "--overwrite")
        run("report", self.recorded)

    def test_recorded_files_of_a_training(self):
        for option in ("--record-trace", "--record-load"):
            target = self.place / option
            words = ("train", "--data", self.data, "--out", self.place, "--model", "softmax", "--batch",
                     20, "--threads", 1, "--samples", 60, option, target)
            target.write_text("mine")
            before = fingerprint(target)
            self.assertIn("--overwrite", run(*words, code=USAGE).stderr)
            self.assertEqual(fingerprint(target), before)
            run(*words, "--resume")
            self.assertEqual(target.with_name(option + ".1").read_text(), "mine")
            run(*words, "--overwrite")
            self.assertFalse(target.with_name(option + ".2").exists())
            data = fingerprint(self.data)
            run(*words[:-1], self.data, "--overwrite", code=USAGE)
            self.assertEqual(fingerprint(self.data), data)
            neighbour = self.place / (option + ".part")
            neighbour.write_text("mine")
            run(*words, "--overwrite")
            self.assertEqual(neighbour.read_text(), "mine", "a neighbour of that name")
            shutil.rmtree(self.place)
            self.place.mkdir()


class Folders(ProgramTest):
    """Folders that a command fills, with links that somebody has put there."""

    def setUp(self):
        self.victim = self.folder / f"victim-{self.id().rsplit('.', 1)[-1]}"
        self.victim.mkdir()
        (self.victim / "file").write_text("mine")
        (self.victim / "step-000000000001.h5").write_text("mine")
        self.before = self.fingerprints()

    def fingerprints(self):
        return {path: fingerprint(path) for path in self.victim.rglob("*")}

    def planted(self, name, plant, *command):
        """Refused with code 3, and the victim is as it was."""
        out = self.out() / name
        out.mkdir(parents=True)
        plant(out / name)
        found = fingerprint(out / name)
        done = run(*command, "--out", out, code=FILE)
        self.assertIn(name, done.stderr)
        self.assertEqual(self.fingerprints(), self.before)
        self.assertEqual(fingerprint(out / name), found)

    def commands(self):
        experiment = self.folder / "experiment.toml"
        experiment.write_text('seeds = [1]\npatterns = ["healthy"]\n[job]\nno-train = true\n'
                              'model = "smallcnn"\nsamples = 2000\nworkers = 2\n'
                              '[[mode]]\nmode = "ssgd"\n')
        train = ("train", "--data", self.data, "--model", "smallcnn", "--batch", 20, "--threads",
                 1, "--samples", 60, "--overwrite")
        return ((train, ("run.lock", "metrics.jsonl", "model.h5", "exit_code"),
                 ("checkpoints", "ctl")),
                ((*SIMULATE, "--overwrite"), ("result.h5",), ()),
                (("sweep", experiment), ("run.lock", "results.csv", "tuning.csv", "results.h5"),
                 ("runs",)))

    def test_links_are_not_followed(self):
        for command, files, folders in self.commands():
            for name, behind in ([(name, self.victim / "file") for name in files]
                                 + [(name, self.victim) for name in folders]):
                with self.subTest(command=command[0], name=name):
                    self.planted(name, lambda path, to=behind: path.symlink_to(to), *command)
                    shutil.rmtree(self.out())
                    nowhere = self.victim / "new"
                    self.planted(name, lambda path, to=nowhere: path.symlink_to(to), *command)
                    shutil.rmtree(self.out())

    def test_pipes_are_not_opened(self):
        for command, files, _ in self.commands():
            for name in files:
                with self.subTest(command=command[0], name=name):
                    self.planted(name, os.mkfifo, *command)
                    shutil.rmtree(self.out())

    def test_a_file_with_another_name_is_not_changed_in_place(self):
        """A hard link of metrics.jsonl or run.lock to somebody's file."""
        for name in ("run.lock", "metrics.jsonl"):
            with self.subTest(name=name):
                self.train("--samples", 60)
                (self.out() / name).unlink()
                os.link(self.victim / "file", self.out() / name)
                done = self.train("--samples", 120, "--resume", code=FILE)
                self.assertIn("hard links", done.stderr)
                (self.out() / name).unlink()
                self.assertEqual(self.fingerprints(), self.before)
                shutil.rmtree(self.out())

    def test_a_checkpoint_that_is_a_link_is_not_used(self):
        self.train("--samples", 200, "--checkpoint-every-samples", 100)
        newest = sorted((self.out() / "checkpoints").glob("step-????????????.h5"))[-1]
        elsewhere = self.victim / "copied.h5"
        shutil.move(newest, elsewhere)
        newest.symlink_to(elsewhere)
        done = self.train("--samples", 300, "--resume")
        self.assertIn("a link", done.stderr)
        self.assertTrue(elsewhere.exists())

    def test_the_output_folder_itself_may_be_a_link(self):
        real = self.folder / "real"
        real.mkdir()
        self.out().symlink_to(real)
        self.train("--samples", 60)
        self.assertTrue((real / "model.h5").exists())

    def test_a_sweep_replaces_its_own_tables_only(self):
        command = self.commands()[2][0]
        out = self.out()
        run(*command, "--out", out)
        run(*command, "--out", out)
        (out / "results.csv").write_text("mine\n")
        self.assertIn("no sweep's", run(*command, "--out", out, code=USAGE).stderr)
        self.assertEqual((out / "results.csv").read_text(), "mine\n")


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"),
                     "only root can be two users: the attack by another user is not tried")
class TwoUsers(unittest.TestCase):
    """An ordinary user's output folders, and another user's links in them."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-users-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.folder.chmod(0o755)
        self.out = self.folder / "out"
        self.out.mkdir()
        self.program = self.folder / "cohort"  # where the other user can reach it
        shutil.copy(cli_support.PROGRAM, self.program)

    def simulate(self, user, code):
        as_user = [] if user == 0 else ["setpriv", f"--reuid={user}", f"--regid={user}",
                                        "--clear-groups"]
        environment = {key: value for key, value in os.environ.items() if key != "SUDO_UID"}
        done = subprocess.run([*as_user, str(self.program), *map(str, SIMULATE), "--overwrite",
                               "--out", str(self.out)],
                              capture_output=True, text=True, timeout=left_s(), check=False,
                              env={**environment, "HOME": "/nonexistent"})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def test_a_folder_of_ones_own_that_others_may_write_into_can_be_used(self):
        os.chown(self.out, NOBODY, NOBODY)
        self.out.chmod(0o777)
        self.simulate(NOBODY, 0)
        victim = self.folder / "victim"
        victim.write_text("mine")
        os.chown(victim, NOBODY, NOBODY)
        (self.out / "result.h5").unlink()
        (self.out / "result.h5").symlink_to(victim)
        self.assertIn("a link", self.simulate(NOBODY, FILE))
        self.assertEqual(victim.read_text(), "mine")

    def test_another_users_folder_is_refused(self):
        os.chown(self.out, NOBODY - 1, NOBODY - 1)
        self.out.chmod(0o777)
        for user in (NOBODY, 0):
            text = self.simulate(user, FILE)
            self.assertIn("another user", text)
            self.assertIn(f"owner {NOBODY - 1}", text)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_root_may_write_where_only_the_owner_can(self):
        os.chown(self.out, NOBODY, NOBODY)
        self.out.chmod(0o755)
        self.simulate(0, 0)

    def test_a_folder_of_root_can_be_used(self):
        self.out.chmod(0o1777)
        self.simulate(NOBODY, 0)


if __name__ == "__main__":
    cli_support.main()
