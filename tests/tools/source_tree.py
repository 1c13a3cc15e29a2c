"""Where the project's own files are; shared by the checks in this folder."""

import pathlib

FOLDERS = ("include", "core", "src", "layers", "comm", "sched", "data", "jobs", "python", "slurm", "experiments", "examples",
           "tests", ".ci")
CXX_SUFFIXES = (".hpp", ".cpp", ".h", ".cu", ".cuh")


def files(root, wanted):
    """All files below the project's folders for which wanted(path) holds, sorted."""
    found = []
    for folder in FOLDERS:
        for path in sorted((pathlib.Path(root) / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and wanted(path):
                found.append(path)
    return found


def cxx_files(root):
    return files(root, lambda path: path.suffix in CXX_SUFFIXES)
