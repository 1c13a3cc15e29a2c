#!/usr/bin/env bash
# Expected: a file that h5py has written and closed can be read at once by anybody.
# Seen: not while a process lives that was forked between opening and closing, whatever it does: reading fails with
#   "unable to lock file, errno = 11", in the process that wrote it as in any other. HDF5 locks the file with flock when it
#   is opened and leaves giving back to close(2); the system does so when the last process that shares the open file closes
#   it. With locking=False while writing, or in a program that was started by exec, reading works.
# Why it matters: a data loader forks its workers while a checkpoint is being saved by another thread, and they live as long
#   as the training does; the checkpoint cannot be read, though it is whole.
# Source: h5py 3.16.0 with HDF5 2.0.0 (PyPI), the same with HDF5 1.10.8 (Debian 12); seen on 2026-11-29.
#
#   findings/hdf5_lock_after_close.sh      ends with 0 as long as this is so
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet h5py==3.16.0 numpy==2.4.4
cd "$folder"
venv/bin/python - <<'PYTHON'
import os
import signal
import subprocess
import sys

import h5py

print("h5py", h5py.__version__, "HDF5", h5py.version.hdf5_version)


def read(name):
    try:
        with h5py.File(name, "r") as file:
            return str(file["numbers"][:].tolist())
    except BlockingIOError as error:
        return f"error {error.errno}"


def written(name, begin, **options):
    """What a reader gets after closing while the process that `begin` starts in between lives, and after its end."""
    file = h5py.File(name, "w", **options)
    file["numbers"] = [1, 2, 3]
    process = begin()
    file.close()
    during = read(name)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return during, read(name)


def fork():
    process = os.fork()
    if process == 0:
        signal.pause()
    return process


right = "[1, 2, 3]"
cases = {
    "forked": (written("forked.h5", fork), ("error 11", right)),
    "forked, locking=False": (written("unlocked.h5", fork, locking=False), (right, right)),
    "started by exec": (written("exec.h5", lambda: subprocess.Popen(["sleep", "60"]).pid), (right, right)),
}
for name, (seen, expected) in cases.items():
    print(f"{name}: read {seen[0]} while it lives, {seen[1]} after its end")
    if seen != expected:
        sys.exit("this has changed")
PYTHON
