#!/usr/bin/env python3
"""Checks that a build without the CUDA toolkit would link: every function that the rest of the
program takes from the backend's files is defined in the stubs as well.

    check_cuda_stubs.py BUILD STUB.o...   BUILD is a build with the backend
"""

import pathlib
import re
import subprocess
import sys

# Objects of the modules and of the program, not of tests.
OBJECT_FOLDER = re.compile(r"/cohort_[a-z]+\.dir/")
BACKEND = re.compile(r"\.dir/cuda/|/cohort_comm\.dir/(.*/)?nccl\.cpp\.o$|\.cu\.o$")


def symbols(paths, option):
    done = subprocess.run(["nm", option, "--format=posix", *paths], capture_output=True, text=True,
                          check=True)
    lines = (line.split() for line in done.stdout.splitlines())
    return {parts[0] for parts in lines if len(parts) >= 2 and parts[1] in tuple("TUBDRVWu")}


def ours(build):
    tests = build / "tests"
    for path in sorted(build.rglob("*.o")):
        if OBJECT_FOLDER.search(path.as_posix()) and tests not in path.parents:
            yield path


def plain_name(symbol):
    done = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    objects = list(ours(pathlib.Path(sys.argv[1]).resolve()))
    backend = [path for path in objects if BACKEND.search(path.as_posix())]
    rest = [path for path in objects if path not in backend]
    needed = symbols(rest, "--undefined-only") & symbols(backend, "--defined-only")
    elsewhere = symbols(rest, "--defined-only")
    missing = sorted(needed - elsewhere - symbols(sys.argv[2:], "--defined-only"))
    for symbol in missing:
        print(f"no stub defines {plain_name(symbol)}")
    print(f"{len(backend)} files of the backend define {len(needed - elsewhere)} functions that others"
          f" need; {len(missing)} without a stub")
    return 1 if missing or not backend else 0


if __name__ == "__main__":
    sys.exit(main())
