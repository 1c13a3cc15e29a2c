#!/usr/bin/env python3
"""Checks all shell and Python scripts for syntax, shell scripts with shellcheck as well. A script that names its
interpreter can be started by its name.

    check_scripts.py ROOT
"""

import os
import shutil
import subprocess
import sys

import source_tree


def interpreter(path):
    """The interpreter's name from the first line, e.g. "bash"; None for other files."""
    with path.open("rb") as file:
        first = file.readline(200)
    if not first.startswith(b"#!"):
        return None
    return first[2:].decode(errors="replace").strip().split("/")[-1].split(" ")[-1]


def shell_problems(path, shellcheck):
    commands = [["bash", "-n", str(path)]]
    if shellcheck:
        commands.append([shellcheck, "--shell=bash", str(path)])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            yield done.stdout + done.stderr


def python_problems(path):
    try:
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
    except SyntaxError as error:
        yield f"{path}:{error.lineno}: {error.msg}"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    shellcheck = shutil.which("shellcheck")
    if not shellcheck:
        print("shellcheck is missing: only the syntax is checked")
    problems = []
    shells = source_tree.files(
        sys.argv[1], lambda path: path.suffix in (".sh", ".sbatch") or interpreter(path) == "bash")
    for path in shells:
        problems.extend(shell_problems(path, shellcheck))
    pythons = source_tree.files(
        sys.argv[1], lambda path: path.suffix == ".py" or interpreter(path) == "python3")
    for path in pythons:
        problems.extend(python_problems(path))
    problems.extend(f"{path}: not executable (chmod +x)" for path in [*shells, *pythons]
                    if interpreter(path) and not os.access(path, os.X_OK))
    print("\n".join(problems))
    print(f"{len(shells)} shell and {len(pythons)} Python scripts, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
