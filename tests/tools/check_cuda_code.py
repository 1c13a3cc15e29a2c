#!/usr/bin/env python3
"""Checks that every CUDA module in libraries or programs has code for all GPUs that a build names.

    check_cuda_code.py "80-real;90" FILE...   as in CMAKE_CUDA_ARCHITECTURES: 80-real is machine
                                              code, 90-virtual is PTX, 90 is both; of names
                                              (native, all) only that there is code is checked
    check_cuda_code.py --self-test

Reads the fat binaries that nvcc embeds, so it needs no tool of the toolkit: a header (magic, version,
its size, size of what follows), then entries (kind, its header's size, size of its data, and at byte
28 the GPU it is for).
"""

import struct
import sys
import tempfile

MAGIC = struct.pack("<I", 0xBA55ED50)
KINDS = {1: "PTX of", 2: "code of sm_"}


def wanted_code(architectures):
    wanted = set()
    for part in filter(None, architectures.replace(",", ";").split(";")):
        number, _, kind = part.partition("-")
        digits = "".join(filter(str.isdigit, number))
        if digits and kind in ("", "virtual"):
            wanted.add((1, int(digits)))
        if digits and kind in ("", "real"):
            wanted.add((2, int(digits)))
    return wanted


def modules(data):
    """For every fat binary in it: the set of (kind, GPU)."""
    at = data.find(MAGIC)
    while at >= 0:
        _, header, size = struct.unpack_from("<HHQ", data, at + 4)
        end = at + header + size
        if header == 16 and size > 0 and end <= len(data):
            found = set()
            entry = at + header
            while entry + 32 <= end:
                kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, entry)
                found.add((kind, struct.unpack_from("<I", data, entry + 28)[0]))
                if entry_header == 0:
                    break
                entry += entry_header + entry_size
            yield found
        at = data.find(MAGIC, at + 4)


def check(architectures, paths):
    wanted = wanted_code(architectures)
    problems = []
    total = 0
    for path in paths:
        with open(path, "rb") as file:
            found = list(modules(file.read()))
        print(f"{path}: {len(found)} CUDA modules")
        total += len(found)
        for number, codes in enumerate(found):
            for kind, gpu in sorted(wanted - codes):
                problems.append(f"{path}: module {number} has no {KINDS[kind]}{gpu}")
    return problems if total else ["no CUDA code at all"]


def fat_binary(codes):
    entries = b"".join(struct.pack("<HHIQIIHHI", kind, 0, 64, 8, 0, 0, 0, 0, gpu).ljust(64, b"\0")
                       + bytes(8) for kind, gpu in codes)
    return MAGIC + struct.pack("<HHQ", 1, 16, len(entries)) + entries


def self_test():
    complete = [(2, 80), (2, 90), (1, 90)]
    named = "80-real;90"
    cases = ((named, [complete], 0), (named, [complete, complete[:2]], 1), (named, [complete[:1]], 2),
             (named, [], 1), ("native", [complete[:1]], 0), ("all-major", [], 1))
    failed = 0
    for architectures, made, problems in cases:
        with tempfile.NamedTemporaryFile(suffix=".a") as file:
            file.write(b"!<arch>\n" + b"padding..".join(fat_binary(codes) for codes in made))
            file.flush()
            found = check(architectures, [file.name])
        failed += len(found) != problems
    print(f"{len(cases)} planted files, {failed} judged wrongly")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(sys.argv[1], sys.argv[2:])
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
