#!/usr/bin/env python3
"""Checks the layout of all C++ files with clang-format 14.

    check_format.py ROOT        exit code 1 when a file would change, 77 when the tool is missing
    check_format.py ROOT --fix  change them
"""

import re
import shutil
import subprocess
import sys

import source_tree

VERSION = "14"  # other versions lay out the same settings differently


def find_tool():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
            if re.search(rf"version {VERSION}\.", text.stdout):
                return path
    return None


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--fix"]):
        print(__doc__, file=sys.stderr)
        return 2
    tool = find_tool()
    if tool is None:
        print(f"clang-format {VERSION} is missing; jobs/install_deps.sh --dev installs it on Debian 12")
        return 77
    paths = [str(path) for path in source_tree.cxx_files(sys.argv[1])]
    options = ["-i"] if sys.argv[2:] else ["--dry-run", "-Werror", "--ferror-limit=1"]
    done = subprocess.run([tool, *options, *paths], check=False)
    if done.returncode != 0:
        print("to fix: tests/tools/check_format.py . --fix")
        return 1
    print(f"{len(paths)} files are laid out as .clang-format says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
