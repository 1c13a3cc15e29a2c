"""Stores (data/hdf5/store.hpp) that are changed and whole again: every checksum is that of what they then hold."""

import pathlib
import tempfile
import zlib

import h5py

STAMP_BYTES = 512  # a store's first block, with length and checksum of the rest


def changed_store(content, change):
    """The bytes of a store after change(file), the file opened by h5py."""
    with tempfile.NamedTemporaryFile(suffix=".h5") as file:
        file.write(content)
        file.flush()
        with h5py.File(file.name, "r+") as store:
            change(store)
        body = pathlib.Path(file.name).read_bytes()[STAMP_BYTES:]
    stamp = f"cohort-store 1\nbytes {STAMP_BYTES + len(body):020}\ncrc32 {zlib.crc32(body):08x}\n"
    return stamp.encode().ljust(STAMP_BYTES, b"\0") + body


def put_values(array, values):
    """Values in place of an array's, with their checksum."""
    array[...] = values
    array.attrs.modify("crc32", array.attrs["crc32"].dtype.type(zlib.crc32(values.tobytes())))
