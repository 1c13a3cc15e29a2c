"""Writes dataset files with h5py into a folder: right ones and wrong ones, one per case.

usage: h5py_datasets.py DOCS_DATA_MD FOLDER
"""
import os
import re
import sys
import zlib

import h5py
import numpy as np

NUMBERS = np.random.default_rng(7)
X = NUMBERS.integers(0, 256, (150, 3, 4, 5), dtype=np.uint8)
Y = (np.arange(150) % 10).astype(np.int64)
X_TEST, Y_TEST = X[:70], Y[:70]


def documented(path, x=X, y=Y):
    """Runs the lines shown in the documentation."""
    text = open(sys.argv[1]).read()
    (lines,) = re.findall(r"data_dataset_h5py_test -->\n```python\n(.*?)```", text, re.S)
    assert len(lines.splitlines()) == 5
    names = dict(h5py=h5py, x=x, y=y, x_test=X_TEST.astype(x.dtype), y_test=Y_TEST.astype(y.dtype))
    exec(lines.replace("mine.h5", path), names)


def changed(change):
    """The documented file with something done to it."""
    def write(path):
        documented(path)
        with h5py.File(path, "r+") as f:
            change(f)
    return write


def without_attribute(name):
    return changed(lambda f: f.attrs.__delitem__(name))


def attribute(name, value):
    return changed(lambda f: f.attrs.__setitem__(name, value))


def replaced(name, **how):
    def change(f):
        del f[name]
        f.create_dataset(name, **how)
    return changed(change)


def label(value):
    return changed(lambda f: f["train/labels"].__setitem__(17, value))


def two_means_grey(path):
    documented(path, X[:, :1])
    with h5py.File(path, "r+") as f:
        f.attrs["mean"] = np.array([1.0, 2.0])


def virtual(f):
    del f["train/samples"]
    layout = h5py.VirtualLayout(shape=X.shape, dtype=X.dtype)
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", shape=X.shape)
    f.create_virtual_dataset("train/samples", layout)


def unfinished(f):
    del f["train/samples"]
    f.create_dataset("train/samples", X.shape, X.dtype, chunks=(64, 3, 4, 5))[:70] = X[:70]


def checksums(each=64, values=None, samples=None):
    """The documented file with CRC-32 of every `each` samples; `values` for the checksums."""
    def change(f):
        if samples:
            del f["train/samples"]
            f.create_dataset("train/samples", data=X, chunks=(samples, 3, 4, 5))
        found = [zlib.crc32(X[i:i + each].tobytes()) for i in range(0, len(X), each)]
        f["train/samples_crc32"] = np.array(values or found, np.uint32)
        f["train/samples_crc32"].attrs["samples"] = each
    return changed(change)


def documented_targets(path):
    """Runs the lines that the documentation shows for targets."""
    text = open(sys.argv[1]).read()
    (lines,) = re.findall(r"data_dataset_h5py_test, too -->\n```python\n(.*?)```", text, re.S)
    y = NUMBERS.normal(size=(220, 2)).astype(np.float32)
    exec(lines.replace("mine.h5", path), dict(h5py=h5py, x=X, x_test=X_TEST, y=y[:150], y_test=y[150:]))


def targets(change):
    """The documented file of targets with something done to it."""
    def write(path):
        documented_targets(path)
        with h5py.File(path, "r+") as f:
            change(f)
    return write


def with_targets(name, data):
    def change(f):
        if name in f:
            del f[name]
        f[name] = data
    return targets(change)


CASES = {
    "documented": documented,
    "float": lambda path: documented(path, X.astype(np.float32), Y.astype(np.uint8)),
    "contiguous": replaced("train/samples", data=X),
    "gzip": replaced("train/samples", data=X, chunks=(8, 3, 4, 5), compression="gzip",
                     shuffle=True),
    "fletcher32": replaced("train/samples", data=X, chunks=(64, 3, 4, 5), fletcher32=True),
    "own_checksums": checksums(each=16),
    "other_chunks": checksums(samples=50),
    "damaged": checksums(values=[0, 0, 0]),
    "few_checksums": checksums(values=[0, 0]),
    "ids": attribute("classes", 2_000_000_000),
    "one_per_chunk": replaced("train/samples", data=X, chunks=(1, 3, 4, 5)),
    "big_endian": replaced("train/samples", data=X.astype(">f4"), chunks=(64, 3, 4, 5)),
    "per_channel": attribute("mean", np.array([1.0, 2.0, 3.0])),
    "fixed_text": attribute("format", np.bytes_("cohort-dataset")),
    "no_format": without_attribute("format"),
    "no_version": without_attribute("version"),
    "no_classes": without_attribute("classes"),
    "no_mean": without_attribute("mean"),
    "no_std": without_attribute("std"),
    "other_format": attribute("format", "other"),
    "other_version": attribute("version", 3),
    "zero_classes": attribute("classes", 0),
    "text_classes": attribute("classes", "ten"),
    "zero_std": attribute("std", 0.0),
    "nan_mean": attribute("mean", float("nan")),
    "two_means": attribute("mean", np.array([1.0, 2.0])),
    "two_means_grey": two_means_grey,
    "no_group": changed(lambda f: f.__delitem__("train")),
    "no_samples": changed(lambda f: f.__delitem__("train/samples")),
    "no_labels": changed(lambda f: f.__delitem__("train/labels")),
    "double": replaced("train/samples", data=X.astype(np.float64)),
    "rank3": replaced("train/samples", data=X[:, 0]),
    "empty": replaced("train/samples", shape=(0, 3, 4, 5), dtype=np.uint8),
    "cut_chunks": replaced("train/samples", data=X, chunks=(64, 3, 2, 5)),
    "lzf": replaced("train/samples", data=X, chunks=(64, 3, 4, 5), compression="lzf"),
    "lzf_labels": replaced("train/labels", data=Y, chunks=(64,), compression="lzf"),
    "virtual": changed(virtual),
    "unfinished": changed(unfinished),
    "never_written": replaced("train/samples", shape=X.shape, dtype=np.uint8),
    "label_high": label(10),
    "label_low": label(-1),
    "label_float": replaced("train/labels", data=Y.astype(np.float32)),
    "label_count": replaced("train/labels", data=Y[:-1]),
    "targets": documented_targets,
    "targets_double": with_targets("train/targets", NUMBERS.normal(size=(150, 2))),
    "targets_version": targets(lambda f: f.attrs.update(version=1, classes=10)),
    "targets_rank": with_targets("train/targets", np.ones(150, np.float32)),
    "targets_count": with_targets("train/targets", np.ones((149, 2), np.float32)),
    "targets_integers": with_targets("train/targets", np.ones((150, 2), np.int32)),
    "targets_nan": with_targets("train/targets", np.full((150, 2), np.nan, np.float32)),
    "targets_and_labels": with_targets("train/labels", Y),
    "targets_missing": targets(lambda f: f.__delitem__("train/targets")),
    "targets_means": targets(lambda f: f.attrs.__setitem__("target_mean", [1.0, 2.0, 3.0])),
    "targets_constant": targets(lambda f: f.attrs.__setitem__("target_std", [1.0, 0.0])),
    "targets_tokens": with_targets("train/samples", np.ones((150, 4), np.uint16)),
    "wrong_checksum": attribute("checksum", "crc32 train/samples:00000000"),
}

for name, write in CASES.items():
    write(os.path.join(sys.argv[2], name + ".h5"))
