"""Damage to files, the same for the same random numbers: of bytes, of lines of text, of HDF5's own structures."""

import pathlib
import re
import struct
import sys
import warnings

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/data"))
from h5py_stores import changed_store, put_values  # noqa: E402

# Where HDF5's own structures begin.
HDF5_MARKS = re.compile(rb"\x89HDF|TREE|SNOD|HEAP|GCOL|OHDR|OCHK|FRHP|FHDB|FHIB|BTHD|BTIN|BTLF|FADB|FAHD|EAHD|EAIB")
REACH = 256  # bytes behind a mark that belong to it, about
WHOLE = [0, 1, 2, 3, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
         0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]
NUMBERS = ["0", "-0", "-1", "1", "2147483647", "2147483648", "4294967296", "9223372036854775807",
           "9223372036854775808", "18446744073709551616", "1e12", "1e300", "-1e300", "1e-300", "1e999", "nan",
           "-nan", "inf", "-inf", "0x7f", "1.5", "", "1,2", "'1'", "\"1\"", "true", "[]", "{}", "[1]", "null"]
NUMBER = re.compile(r"(?<![A-Za-z_])-?\d+(\.\d+)?([eE][+-]?\d+)?")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def random_bytes(rng, most):
    return bytes(rng.randrange(256) for _ in range(rng.randint(1, most)))


def place(rng, data, marks):
    """An offset, mostly in one of HDF5's own structures where there are some."""
    if marks and rng.random() < 0.8:
        return min(rng.choice(marks) + rng.randrange(REACH), len(data) - 1)
    return rng.randrange(len(data))


def flip_bits(rng, data, marks):
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        data[place(rng, data, marks)] ^= 1 << rng.randrange(8)


def put_number(rng, data, marks):
    size = rng.choice((1, 2, 4, 8))
    number = rng.choice(WHOLE) & ((1 << 8 * size) - 1)
    at = place(rng, data, marks)
    data[at:at + size] = struct.pack((">" if rng.random() < 0.3 else "<") + "xBHxIxxxQ"[size], number)


def put_noise(rng, data, marks):
    at = place(rng, data, marks)
    noise = random_bytes(rng, 64)
    data[at:at + len(noise)] = noise


def put_run(rng, data, marks):
    at = place(rng, data, marks)
    length = rng.choice((4, 16, 256, 4096))
    data[at:at + length] = bytes([rng.choice((0, 255))]) * min(length, len(data) - at)


def insert_noise(rng, data, marks):
    at = place(rng, data, marks)
    data[at:at] = random_bytes(rng, 64)


def cut_end(rng, data, marks):
    del data[place(rng, data, marks):]


def cut_block(rng, data, marks):
    at = place(rng, data, marks)
    del data[at:at + rng.randint(1, max(1, len(data) // 4))]


def swap_blocks(rng, data, marks):
    size = rng.randint(1, max(1, len(data) // 4))
    a, b = place(rng, data, marks), place(rng, data, [])
    first, second = bytes(data[a:a + size]), bytes(data[b:b + size])
    data[a:a + len(second)] = second
    data[b:b + len(first)] = first


def double_block(rng, data, marks):
    at = place(rng, data, marks)
    block = bytes(data[at:at + rng.randint(1, max(1, len(data) // 4))])
    data[at:at] = block


def empty(_rng, data, _marks):
    del data[:]


def append_noise(rng, data, _marks):
    data += random_bytes(rng, 5000)


BYTE_DAMAGE = [flip_bits] * 6 + [put_number] * 8 + [put_noise] * 3 + [put_run] * 2 + [
    insert_noise, cut_end, cut_end, cut_block, swap_blocks, double_block, append_noise]


def damage_bytes(rng, content, marks=()):
    data = bytearray(content)
    if rng.random() < 0.01:
        empty(rng, data, marks)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if data:
            rng.choice(BYTE_DAMAGE)(rng, data, marks)
    return bytes(data)


def damage_hdf5(rng, content):
    return damage_bytes(rng, content, [match.start() for match in HDF5_MARKS.finditer(content)])


def odd_value(rng, old):
    if isinstance(old, (bytes, str)):
        return damage_text(rng, old.encode() if isinstance(old, str) else old).decode(errors="replace").replace("\0", "")
    kind = np.asarray(old).dtype
    if kind.kind == "f":
        with warnings.catch_warnings(action="ignore"):  # what does not fit becomes infinite
            return kind.type(rng.choice((np.nan, np.inf, -np.inf, -1, 0, 1e308, 1e-308, 0.5)))
    return np.array(rng.choice(WHOLE) & ((1 << 8 * kind.itemsize) - 1), f"u{kind.itemsize}").view(kind)[()]


def damage_values(rng, content):
    """A store that is whole, with every checksum right, but holds odd numbers and texts."""
    def change(store):
        objects = [store]
        store.visititems(lambda _name, item: objects.append(item))
        for _ in range(rng.choice((1, 1, 3))):
            spoil(rng, rng.choice(objects))
    return changed_store(content, change)


def spoil(rng, item):
    names = [name for name in item.attrs if name != "crc32"]
    if isinstance(item, h5py.Dataset) and item.size and (rng.random() < 0.7 or not names):
        values = item[()]
        for _ in range(rng.choice((1, 1, values.size))):
            values.flat[rng.randrange(values.size)] = odd_value(rng, values.flat[0])
        put_values(item, values)
    elif names:
        name = rng.choice(names)
        old = item.attrs[name]
        if rng.random() < 0.1:
            del item.attrs[name]
        elif isinstance(old, (bytes, str)):
            item.attrs[name] = np.bytes_(odd_value(rng, old).encode(errors="replace")[:60000])
        else:
            item.attrs.modify(name, odd_value(rng, old))


def damage_store(rng, content):
    """A store as damage leaves it, or as nobody wrote it."""
    return damage_hdf5(rng, content) if rng.random() < 0.4 else damage_values(rng, content)


def put_at(rng, text, pattern, choices):
    found = list(pattern.finditer(text))
    if not found:
        return text
    at = rng.choice(found)
    return text[:at.start()] + rng.choice(choices) + text[at.end():]


def change_number(rng, text):
    return put_at(rng, text, NUMBER, NUMBERS)


def change_word(rng, text):
    words = WORD.findall(text) or ["x"]
    return put_at(rng, text, WORD, [*words, "", "x" * 5000, "\u00e9\u4e2d", "\"", "..", "a.b.c"])


def change_lines(rng, text):
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        lines.insert(a, lines[b])
    elif kind == 1:
        lines[a], lines[b] = lines[b], lines[a]
    elif kind == 2:
        del lines[a]
    elif kind == 3:
        lines[a:a] = [lines[b]] * rng.choice((2, 100, 5000))
    elif kind == 4:
        lines[a] = lines[a][:rng.randrange(len(lines[a]) + 1)]
    else:
        lines[a] += lines[b]
    return "\n".join(lines)


def put_nest(rng, text):
    at = rng.randrange(len(text) + 1)
    opening = rng.choice(("[", "{", "[[", "{\"a\":", "\"", "\"\"\"", ",", "#", "\x00", "\r", "a={"))
    return text[:at] + opening * rng.choice((1, 3, 1000, 100000)) + text[at:]


def damage_text(rng, content):
    if rng.random() < 0.25:
        return damage_bytes(rng, content)
    text = content.decode(errors="surrogateescape")
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice((change_number, change_number, change_number, change_word, change_lines, put_nest))(rng, text)
    return text.encode(errors="surrogateescape")
