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
from cli_support import make_data, run  # noqa: E402

POINTER = ("version https://git-lfs.github.com/spec/v1\n"
           "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n")
PAGE = "\n<!DOCTYPE html>\n<html><head><title>404: not found</title></head></html>\n"
XML = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>AccessDenied</Code></Error>\n"


class Files(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-files-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.data = make_data(cls.folder)

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

    def test_what_lies_in_place_of_a_file_is_named(self):
        out = ["--test-fraction", 0.5, "--output", self.folder / "out.h5"]
        images = self.folder / "pictures" / "cat"
        images.mkdir(parents=True)
        text = self.folder / "words.txt"
        text.write_text("some words " * 100, encoding="utf-8")
        train = ["train", "--out", self.folder / "run", "--batch", 4, "--samples", 8, "--threads", 1]
        cases = {name: ["import", *out, "--input", self.folder / name, *more] for name, *more in (
            ("x.csv",), ("x.npy", "--input", self.folder / "train_labels.npy"), ("x.npz",), ("x-idx3-ubyte",), ("x-labels-idx1-ubyte.gz",), ("data_batch_1.bin",),
            ("x.txt", "--format", "text"))}
        cases.update({
            "pictures/cat/1.png": ["import", *out, "--format", "folder", "--input", self.folder / "pictures"],
            "tokenizer.json": ["import", *out, "--format", "text", "--input", text, "--tokens",
                               self.folder / "tokenizer.json"],
            "set.h5": [*train, "--data", self.folder / "set.h5", "--model", "mlp"],
            "net.onnx": [*train, "--data", self.data, "--model", self.folder / "net.onnx"],
            "w.safetensors": [*train, "--data", self.data, "--model", "mlp", "--init", self.folder / "w.safetensors"],
            "w.h5": [*train, "--data", self.data, "--model", "mlp", "--init", self.folder / "w.h5"],
            "model.h5": ["eval", "--data", self.data, "--model-file", self.folder / "model.h5"],
            "fleet.toml": ["fleet", self.folder / "fleet.toml", "--out", self.folder / "fleet"],
            "load.csv": [*train, "--data", self.data, "--model", "mlp", "--compute",
                         f"sleep:1ms+recorded:{self.folder / 'load.csv'}"],
        })
        for name, command in cases.items():
            path = self.folder / name
            for content, what in ((POINTER, "a Git LFS pointer lies in place of the file; try git lfs pull"),
                                  (PAGE, "a web page lies in place of the file"), (XML, "an XML document lies in place")):
                with self.subTest(name, what=what):
                    path.write_text(content, encoding="utf-8")
                    said = run(*command, code=3).stderr
                    self.assertIn(f"{path}] {what}", said)
            path.unlink()
        page = self.folder / "page.html"  # a text that is meant to be one
        page.write_text(PAGE * 40, encoding="utf-8")
        run("import", *out, "--format", "text", "--tokens", "bytes", "--input", page)

    def test_numbers_beyond_2_63_are_those_of_the_file(self):
        x, y = self.folder / "x.npy", self.folder / "y.npy"
        np.save(x, np.arange(12, dtype=np.float32).reshape(4, 3))
        words = ["import", "--input", x, "--input", y, "--test-fraction", 0.5, "--output", self.folder / "u.h5", "--overwrite"]
        for kind in ("<u8", ">u8"):
            numbers = np.array([1, 2**63 + 2**40, 2**64 - 1, 5], dtype=kind)
            np.save(y, numbers)
            said = run(*words, code=3).stderr
            self.assertIn(f"label 1 is out of range; expected 0 or more, below 2147483647, got {2**63 + 2**40}", said)
            run(*words, "--regression")
            with h5py.File(self.folder / "u.h5") as file:
                stored = np.concatenate([file[f"{group}/targets"][()].ravel() for group in ("train", "test")])
            self.assertEqual(sorted(stored.tolist()), sorted(numbers.astype(np.float32).tolist()))
        with h5py.File(self.folder / "labels.h5", "w") as file:
            file.attrs.update(format="cohort-dataset", version=1, classes=4, mean=[0.0], std=[1.0])
            for group in ("train", "test"):
                file[f"{group}/samples"] = np.zeros((4, 1, 2, 2), np.float32)
                file[f"{group}/labels"] = np.array([0, 1, 2**64 - 1, 2], dtype=np.uint64)
        self.assertIn("got 9223372036854775807 or more", run("info", "--data", self.folder / "labels.h5", code=3).stderr)

    def test_large_chunks_are_pointed_out(self):
        path = self.folder / "chunks.h5"
        for samples, said in ((9, False), (400, True)):  # of 98 kB: 0.9 and 39 MB
            with h5py.File(path, "w") as file:
                file.attrs.update(format="cohort-dataset", version=1, classes=2, mean=[100.0] * 3, std=[50.0] * 3)
                for group in ("train", "test"):
                    file.create_dataset(f"{group}/samples", data=np.ones((400, 3, 181, 181), np.uint8),
                                        chunks=(samples, 3, 181, 181))
                    file[f"{group}/labels"] = np.zeros(400, np.int64)
            shown = run("info", "--data", path).stdout
            self.assertEqual("a worker reads a whole one for its first sample and holds two of them" in shown, said, shown)
            self.assertEqual("chunks of 37.5 MiB, where about 1 MiB is usual" in shown, said, shown)


if __name__ == "__main__":
    cli_support.main()
