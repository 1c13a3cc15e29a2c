#!/usr/bin/env python3
"""Signals to jobs/launch.sh.   stop_test.py ROOT"""

import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from launch_support import LaunchTest, running, wait_until  # noqa: E402


class Stopping(LaunchTest):

    def test_each_signal_becomes_usr1(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            with self.subTest(signal=number.name):
                launcher = self.start("wait_for_stop()")
                os.killpg(launcher.pid, number)
                self.assertIn("stopping after a checkpoint", self.finish(launcher, 75))
                self.check_gone()
                for rank in (0, 1):
                    (self.folder / f"ready.{rank}").unlink()

    def test_a_stop_that_comes_before_the_ranks_listen_is_kept(self):
        launcher = self.start("(folder / f'ready.{rank}').touch(); time.sleep(1); wait_for_stop()")
        launcher.terminate()
        self.finish(launcher, 75)

    def test_second_interrupt_ends_ranks_that_do_not_stop(self):
        launcher = self.start(
            "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "signal.signal(signal.SIGUSR1, signal.SIG_IGN); leave = lambda *_: None;"
            "wait_for_stop()")
        launcher.send_signal(signal.SIGINT)
        wait_until(lambda: "stopping after a checkpoint" in self.log.read_text(), "the first interrupt is heard")
        time.sleep(0.5)
        self.assertTrue(all(map(running, self.rank_processes())))
        launcher.send_signal(signal.SIGINT)
        self.finish(launcher, 130)
        self.check_gone()

    IGNORING = "leave = lambda *_: None; signal.signal = lambda *_: None; wait_for_stop()"

    def test_first_interrupt_ends_python_programs_that_do_not_handle_usr1(self):
        launcher = self.start(self.IGNORING, job=["job.py"])
        launcher.send_signal(signal.SIGINT)
        messages = self.finish(launcher, 130)
        self.assertIn("does not handle USR1", messages)
        self.check_gone()

    def test_one_that_handles_usr1_has_all_the_time_that_it_wants(self):
        launcher = self.start("heard = []; leave = lambda code: "
                              "(heard.append(time.monotonic()), time.monotonic() - heard[0] > 8 and sys.exit(0));"
                              "wait_for_stop()", job=["job.py"])
        launcher.send_signal(signal.SIGINT)
        self.assertNotIn("does not handle USR1", self.finish(launcher, 0))

    def test_two_terms_at_once_are_one_request_later_ones_end_it(self):
        launcher = self.start("leave = lambda *_: None; wait_for_stop()")
        launcher.terminate()
        time.sleep(0.2)
        launcher.terminate()
        time.sleep(2)
        self.assertIsNone(launcher.poll())

        def ended():
            launcher.terminate()
            time.sleep(0.5)
            return launcher.poll() is not None
        wait_until(ended, "a later TERM ends it")
        self.finish(launcher, 143)
        self.check_gone()

    def test_a_killed_launcher_leaves_nobody_behind(self):
        launcher = self.start("wait_for_stop()")
        launcher.kill()
        self.check_gone()
        self.assertEqual((self.out / "exit_code").read_text().split()[0], "75")

    def test_temporary_files_are_removed(self):
        self.launch("leave(0)", environment={"TMPDIR": str(self.scratch())})
        self.assertEqual(self.left_in_scratch(), [])

    def test_temporary_files_of_a_killed_launcher_are_removed_too(self):
        launcher = self.start("wait_for_stop()", environment={"TMPDIR": str(self.scratch())})
        self.assertEqual(len(self.left_in_scratch()), 1)
        launcher.kill()
        wait_until(lambda: not self.left_in_scratch(), "the folder is gone")
        self.check_gone()


if __name__ == "__main__":
    LaunchTest.root = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
