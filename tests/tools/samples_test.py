#!/usr/bin/env python3
"""Excerpts of outputs and the picture of a run, on texts and numbers made by hand.

samples_test.py [UNITTEST-OPTION...]
"""

import json
import pathlib
import re
import tempfile
import unittest

import samples
import time_to_accuracy

OUTPUT = "start\n== one\n07:27:36.697 info  ssgd   23.2 s\nnoise\nadaptive 8.3 s\nssgd 1\n"


class Excerpts(unittest.TestCase):

    def test_lines_in_their_order_and_gaps_between_them(self):
        self.assertEqual(samples.excerpt("s", ["== one", "ssgd", "adaptive"], OUTPUT),
                         "== one\nssgd   23.2 s\n...\nadaptive 8.3 s\n")
        with self.assertRaisesRegex(SystemExit, "no line begins with 'gone'"):
            samples.excerpt("s", ["adaptive", "gone"], OUTPUT)

    def test_numbers_spaces_units_of_bytes_and_gaps_do_not_count(self):
        self.assertEqual(samples.masked("ssgd   23.2 s, 9.19 GiB, -5 %"), samples.masked("...\nssgd 1,234 s, 3 MiB, 7 %"))
        self.assertNotEqual(samples.masked("loss 0.1"), samples.masked("losses 0.1"))

    def test_a_sample_and_the_command_before_it(self):
        page = "```\ncohort a  # why\n```\ntext\n<!-- sample: b -->\n```\nold\n```\n```\nnot this\n```\n"
        found, command = samples.block(page, "b")
        self.assertEqual((found[1], command), ("old\n", "cohort a\n"))


class Picture(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_of(self, mode, seconds, points):
        lines = [*({"event": "evaluation", "train_s": at, "test_accuracy": accuracy} for at, accuracy in points),
                 {"event": "summary", "mode": mode, "workers": 4, "tta_s": seconds}]
        (self.folder / mode).mkdir()
        (self.folder / mode / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.folder / mode

    def test_curves_end_where_the_target_is_reached(self):
        picture = time_to_accuracy.draw([self.run_of("ssgd", 20.0, [(5, 0.5), (10, 0.65), (20, 0.8), (21, 0.9)]),
                                         self.run_of("adaptive", None, [(5, 0.5), (10, 0.7)])], 0.8)
        # 20 seconds from 56 to 544 pixels; accuracies from 0.5 to 0.8 from 244 up to 64.
        self.assertEqual(re.findall(r'points="([^"]*)"', picture),
                         ["178.0,244.0 300.0,154.0 544.0,64.0", "178.0,244.0 300.0,124.0"])
        self.assertIn('class="target" x1="56" y1="64.0"', picture)
        self.assertIn(">ssgd: 20.0 s<", picture)
        self.assertIn(">adaptive: not reached<", picture)
        self.assertEqual(re.findall(r'text-anchor="middle">(\d+)<', picture), ["0", "5", "10", "15", "20"])

    def check_inside(self, picture, curves):
        """Every number is one, all of them lie in the plot, and there are as many curves."""
        self.assertNotRegex(picture, "nan|inf")
        self.assertEqual(picture.count("<polyline"), curves)
        for x, y in re.findall(r'c?x="([-\d.]+)" c?y="([-\d.]+)" r=', picture):
            self.assertTrue(56 <= float(x) <= 544 and 64 <= float(y) <= 244, (x, y))
        (target,) = re.findall(r'class="target" x1="56" y1="([-\d.]+)"', picture)
        self.assertTrue(64 <= float(target) <= 244, target)
        self.assertTrue(re.findall(r'>\d+ %<', picture), "accuracies beside the axis")
        for at, side, label in re.findall(r'<text x="([-\d.]+)" y="[-\d.]+" dx="-?\d" dy="-11" text-anchor="(\w+)" '
                                          r'[^>]*>([^<]*)<', picture):
            self.assertTrue(side == "start" or float(at) > 7 * len(label), label)

    def test_one_point(self):
        self.check_inside(time_to_accuracy.draw([self.run_of("ssgd", None, [(5, 0.5)])], 0.8), 1)
        self.check_inside(time_to_accuracy.draw([self.run_of("asgd", None, [(0, 0.5)])], 0.5), 1)

    def test_flat_curves(self):
        for number, accuracy in enumerate((0, 0.1, 0.8, 0.83, 1)):
            runs = [self.run_of(f"{mode}{number}", None, [(5, accuracy), (10, accuracy)]) for mode in ("a", "b")]
            self.check_inside(time_to_accuracy.draw(runs, accuracy), 2)

    def test_a_target_met_in_the_first_test(self):
        picture = time_to_accuracy.draw([self.run_of("ssgd", 0.2, [(0.2, 0.95), (0.4, 0.96)]),
                                         self.run_of("adaptive", 0.1, [(0.1, 1.0)])], 0.8)
        self.check_inside(picture, 2)
        self.assertIn(">ssgd: 0.2 s<", picture)
        self.assertEqual(re.findall(r'points="([^"]*)"', picture)[1], "300.0,64.0")

    def test_a_run_without_a_test_has_its_name_and_no_curve(self):
        tested = self.run_of("ssgd", 20.0, [(10, 0.65), (20, 0.8)])
        picture = time_to_accuracy.draw([tested, self.run_of("adaptive", None, [])], 0.8)
        self.check_inside(picture, 1)
        self.assertIn(">adaptive: not tested<", picture)
        picture = time_to_accuracy.draw([self.run_of("asgd", None, [])], 0.8)
        self.check_inside(picture, 0)
        self.assertIn(">asgd: not tested<", picture)


if __name__ == "__main__":
    unittest.main()
