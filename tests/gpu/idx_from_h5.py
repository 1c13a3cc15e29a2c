#!/usr/bin/env python3
"""Writes the images of a data set file of `cohort import` as IDX files for gpu_accuracy.

    idx_from_h5.py DATA.h5 FOLDER    FOLDER/train-images, train-labels, test-images, test-labels
"""

import pathlib
import struct
import sys

import h5py
import numpy


def write_idx(path, values):
    header = struct.pack(">I", 0x800 | values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(header + numpy.ascontiguousarray(values, dtype=numpy.uint8).tobytes())
    print(f"{path}: {values.shape}")


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(sys.argv[1]) as file:
        for part in ("train", "test"):
            samples = file[part]["samples"][:]
            if samples.dtype != numpy.uint8:
                print(f"{part}: samples of {samples.dtype}, expected bytes", file=sys.stderr)
                return 3
            write_idx(folder / f"{part}-images", samples.reshape(len(samples), *samples.shape[-2:]))
            write_idx(folder / f"{part}-labels", file[part]["labels"][:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
