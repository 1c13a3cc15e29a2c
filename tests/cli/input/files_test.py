#!/usr/bin/env python3
"""Input files as people have them: tables of other programs, files that were not fetched.

    files_test.py COHORT [-- UNITTEST-OPTION...]
"""

import csv
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
import h5py  # noqa: E402
import numpy as np  # noqa: E402
from cli_support import run  # noqa: E402


class Files(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-files-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)

    def csv(self, text, *options, code=0, name="all.csv"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return run("import", "--format", "csv", "--input", path, "--test-fraction", 0.5, "--output", self.folder / "csv.h5",
                   "--overwrite", *options, code=code)

    def rows(self):
        """All samples with their labels behind them, in order."""
        with h5py.File(self.folder / "csv.h5") as file:
            parts = [np.column_stack([file[f"{group}/samples"][()], file[f"{group}/labels"][()]])
                     for group in ("train", "test")]
        return sorted(np.concatenate(parts).tolist())

    def test_fields_in_quotation_marks_may_have_commas(self):
        text = ('"width, in mm","the ""other"", too",class\n' + '"1.5", "2" ,0\n' + ' 2.5,3,"1"\n' + '"3.5","4",0\n"4.5",5,1\n')
        for column in ("class", "2"):
            self.csv(text, "--label-column", column)
            with open(self.folder / "all.csv", encoding="utf-8") as file:
                wanted = [[float(word) for word in row] for row in csv.reader(file, skipinitialspace=True) if row[-1] != "class"]
            self.assertEqual(self.rows(), sorted(wanted))
        self.csv(text.replace("class", '"a ""class"", b"'), "--label-column", 'a "class", b')
        self.assertEqual(self.rows(), sorted(wanted))
        self.assertIn("all.csv:3] a quotation mark without its partner",
                      self.csv('a,class\n1,0\n"2,1\n', "--label-column", "class", code=3).stderr)
        self.assertIn("all.csv:2] text behind the quotation mark",
                      self.csv('a,class\n"2"5,1\n', "--label-column", "class", code=3).stderr)

    def test_other_separators_are_named(self):
        for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            for rows in (["width", "class"], ["1.5", "0"]), (["1,5", "0,25"], ["2,5", "1,25"]), (["1", "0"], ["2", "1"]):
                text = "".join(separator.join(row) + "\n" for row in rows)
                for column in ("0", "class"):
                    said = self.csv(text, "--label-column", column, code=3).stderr
                    self.assertIn(f"all.csv:1] the fields are separated by {name}; expected commas", said, text)
        self.csv('"a;b","c|d",class\n1,2,0\n3,4,1\n', "--label-column", "class")

    def test_a_column_that_counts_the_rows_is_pointed_out(self):
        for first, start, said in (("", 0, True), ("Unnamed: 0", 0, True), ("", 1, True), ("", 7, True), ("id", 0, False)):
            text = f"{first},width,class\n" + "".join(f"{start + i},{i * i % 7},{i % 2}\n" for i in range(20))
            done = self.csv(text, "--label-column", "class")
            self.assertEqual(done.stderr.count("counts the rows; it is part of the samples"), 1 if said else 0, text[:40])
        done = self.csv(text.replace("id", ""))  # the label's column is the first one by default
        self.assertIn("counts the rows; it is the label", done.stderr)
        mixed = ",width,class\n" + "".join(f"{i * 3 % 20},{i},{i % 2}\n" for i in range(20))
        self.assertNotIn("counts the rows", self.csv(mixed, "--label-column", "class").stderr)


if __name__ == "__main__":
    cli_support.main()
