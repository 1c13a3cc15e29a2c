"""Writes .npy files into a folder, as NumPy writes them. usage: npy_files.py FOLDER"""
import os
import sys

import numpy as np

folder = sys.argv[1]


def save(name, array, version=None):
    with open(os.path.join(folder, name + ".npy"), "wb") as f:
        np.lib.format.write_array(f, array, version=version)


samples = np.arange(20 * 2 * 3, dtype=np.uint8).reshape(20, 2, 3)
labels = np.arange(20) % 4
save("u1", samples)
save("u1_v2", samples, (2, 0))
save("u1_v3", samples, (3, 0))
save("u1_flat", samples.reshape(20, 6))
save("f4", samples.astype("<f4"))
save("f4_big", samples.astype(">f4"))
save("f8", samples.astype("<f8"))
save("fortran", np.asfortranarray(samples))
save("structure", np.zeros(20, dtype=[("a", "u1"), ("b", "f4")]))
save("single", np.array(3, dtype=np.uint8))
for width in ("u1", "i1", "<u2", "<i2", ">i4", "<u4", "<i8", ">u8"):
    save("label_" + width.replace("<", "l").replace(">", "b"), labels.astype(width))
save("label_column", labels.reshape(20, 1))
save("label_short", labels[:19])
save("label_negative", labels - 1)
save("label_huge", labels + 2**40)
save("label_c8", labels.astype("<c8"))
save("label_matrix", np.zeros((20, 2), dtype=np.int64))
