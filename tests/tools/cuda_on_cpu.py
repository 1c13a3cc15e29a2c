#!/usr/bin/env python3
"""Makes C++ of CUDA files, for tests/support/gpu/cuda_on_cpu.hpp to run on the CPU.

    cuda_on_cpu.py OUT.cpp FILE.cu   launches become calls, in the .cuh files that it includes too
"""

import pathlib
import re
import sys

LAUNCH = re.compile(r"(\w+(?:<[^<>;]*>)?)\s*<<<(.*?)>>>\s*\(", re.S)
CALL = r"cohort::on_cpu::Launch(\2)([](auto... a) { \1(a...); }, "
INCLUDE = re.compile(r'^#include "([^"]+\.cuh)"$', re.M)
ROOT = pathlib.Path(__file__).resolve().parents[2]


def converted(path, seen):
    """The file's text, with the .cuh files of its folder and of the project's root in their includes' place."""
    seen.add(path)

    def inlined(match):
        name = match.group(1)
        header = (ROOT if "/" in name else path.parent) / name
        return "" if header in seen else converted(header, seen)

    text = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
    return LAUNCH.sub(CALL, INCLUDE.sub(inlined, text))


def main(out, file):
    text = converted(pathlib.Path(file).resolve(), set())
    pathlib.Path(out).write_text('#include "support/gpu/cuda_on_cpu.hpp"\n' + text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
