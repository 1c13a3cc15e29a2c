"""Writes .npz archives into a folder, as NumPy writes them. usage: npz_files.py FOLDER"""
import os
import sys
import zipfile

import numpy as np

folder = sys.argv[1]
x = np.arange(20 * 5 * 6 * 3, dtype=np.int64).astype(np.uint8).reshape(20, 5, 6, 3)
arrays = {"x_train": x, "y_train": np.arange(20) % 4, "x_test": x[:5], "y_test": np.arange(5) % 4}
np.savez(os.path.join(folder, "stored.npz"), **arrays)
np.savez_compressed(os.path.join(folder, "deflated.npz"), **arrays)
first = {name: array.transpose(0, 3, 1, 2).copy() for name, array in arrays.items() if "x" in name}
np.savez(os.path.join(folder, "first.npz"), **{**arrays, **first})
np.savez(os.path.join(folder, "train.npz"), images=x, labels=arrays["y_train"])
np.savez(os.path.join(folder, "test.npz"), images=x[:5], labels=arrays["y_test"])
with zipfile.ZipFile(os.path.join(folder, "stored.npz")) as stored, \
        zipfile.ZipFile(os.path.join(folder, "bzip2.npz"), "w", zipfile.ZIP_BZIP2) as archive:
    for name in stored.namelist():
        archive.writestr(name, stored.read(name))
with open(os.path.join(folder, "stored.npz"), "rb") as stored, open(os.path.join(folder, "odd.npz"), "wb") as odd:
    content = bytearray(stored.read())
    for mark, at in ((b"PK\1\2", 10), (b"PK\3\4", 8)):  # where an entry has its method of compression
        begin = content.find(mark)
        while begin >= 0:
            content[begin + at] = 97
            begin = content.find(mark, begin + 1)
    odd.write(content)
with zipfile.ZipFile(os.path.join(folder, "texts.npz"), "w") as archive:
    archive.writestr("folder/", b"")
    archive.writestr("readme.txt", b"nothing")
