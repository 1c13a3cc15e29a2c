#!/usr/bin/env python3
"""Makes C++ of CUDA files, for tests/support/cuda_on_cpu.hpp to run on the CPU.

    cuda_on_cpu.py OUT.cpp FILE.cu...   the files one after the other; launches become calls
"""

import pathlib
import re
import sys

LAUNCH = re.compile(r"(\w+(?:<[^<>;]*>)?)\s*<<<(.*?)>>>\s*\(", re.S)
CALL = r"cohort::on_cpu::Launch(\2)([](auto... a) { \1(a...); }, "


def converted(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return f'#line 1 "{path}"\n' + LAUNCH.sub(CALL, text)


def main(out, files):
    parts = ['#include "support/cuda_on_cpu.hpp"\n'] + [converted(file) for file in files]
    pathlib.Path(out).write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
