#!/usr/bin/env python3
"""Checks that what CMake requires is installed by jobs/install_deps.sh and, where users build it, by the recipe of
Spack.

    check_packages.py ROOT
"""

import pathlib
import re
import sys

REQUIRED = re.compile(r"find_(?:package|library)\((?:COHORT_\w+ )?(\w+)\b[^)]*\bREQUIRED\b")
# Name in CMake: the package of Debian and that of Spack. The compiler has Threads and OpenMP.
PACKAGES = {
    "Threads": ("g++", "cxx"),
    "OpenMP": ("g++", "cxx"),
    "MPI": ("libopenmpi-dev", "mpi"),
    "HDF5": ("libhdf5-openmpi-dev", "hdf5"),
    "dnnl": ("libdnnl-dev", "onednn"),
    "Protobuf": ("libprotobuf-dev", "protobuf"),
    "ZLIB": ("zlib1g-dev", "zlib-api"),
    "utf8proc": ("libutf8proc-dev", "utf8proc"),
    "zip": ("libzip-dev", "libzip"),
    "PNG": ("libpng-dev", "libpng"),
    "JPEG": ("libjpeg62-turbo-dev", "jpeg"),
    "CLI11": ("libcli11-dev", "cli11"),
    "tomlplusplus": ("libtomlplusplus-dev", "tomlplusplus"),
    "nlohmann_json": ("nlohmann-json3-dev", "nlohmann-json"),
    "simdjson": ("libsimdjson-dev", "simdjson"),
    "spdlog": ("libspdlog-dev", "spdlog"),
    "fmt": ("libfmt-dev", "fmt"),
}
# What only tests and the Python package need, which the recipe leaves out.
DEVELOPMENT = {
    "GTest": "libgtest-dev",
    "benchmark": "libbenchmark-dev",
    "Python3": "python3-dev",
    "pybind11": "pybind11-dev",
}


def required(*files):
    return {name for file in files for name in REQUIRED.findall(file.read_text(encoding="utf-8"))}


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(sys.argv[1])
    recipe = root / "packaging/spack/spack_repo/cohort/packages/cohort/package.py"
    script = root / "jobs/install_deps.sh"
    spack = set(re.findall(r'depends_on\("([\w-]+)', recipe.read_text(encoding="utf-8")))
    debian = set(re.findall(r"[\w+.-]+", script.read_text(encoding="utf-8")))
    build = required(*(root / "cmake").glob("*.cmake"))
    found = [f"{name}: no packages in {sys.argv[0]}" for name in build - set(PACKAGES)]
    for name in build & set(PACKAGES):
        found += [f"{name}: {script.relative_to(root)} has no {PACKAGES[name][0]}"] * (PACKAGES[name][0] not in debian)
        found += [f"{name}: {recipe.relative_to(root)} has no {PACKAGES[name][1]}"] * (PACKAGES[name][1] not in spack)
    for name in required(root / "tests/CMakeLists.txt", root / "python/CMakeLists.txt") - build:
        if DEVELOPMENT.get(name) not in debian:
            found.append(f"{name}: {script.relative_to(root)} has no package of it ({DEVELOPMENT.get(name)})")
    print("\n".join(sorted(found)))
    return 1 if found or len(build) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
