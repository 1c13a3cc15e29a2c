#!/usr/bin/env python3
"""Runs clang-tidy with .clang-tidy over the library's and the program's sources.

    check_lint.py CLANG_TIDY ROOT BUILD [FILE...]   all sources in BUILD/compile_commands.json, or
                                                    those whose path ends with one of FILE

Tests are left out: GoogleTest's macros make them slow to analyse and raise alarms of their own.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

HEADERS = pathlib.Path(__file__).resolve().parent / "lint_headers"
FOLDERS = ("src", "layers", "comm", "sched", "data", "jobs")


def sources(root, build, wanted):
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    for path in sorted({pathlib.Path(command["file"]) for command in commands}):
        if path.is_relative_to(root) and path.relative_to(root).parts[0] in FOLDERS:
            if not wanted or any(str(path).endswith(name) for name in wanted):
                yield str(path)


def lint(tool, build, path):
    command = [tool, "-p", build, "--quiet", "--extra-arg=-Wno-unknown-warning-option",
               f"--extra-arg=-isystem{HEADERS}", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return path, done.returncode, done.stdout or done.stderr


def main():
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    tool, root, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    paths = list(sources(root, build, sys.argv[4:]))
    faulty = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, status, text in pool.map(lambda path: lint(tool, build, path), paths):
            if status != 0:
                faulty += 1
                print(f"{path}\n{text}", flush=True)
    print(f"{len(paths)} files, {faulty} with findings")
    return 1 if faulty or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
