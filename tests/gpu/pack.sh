#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs on a machine that has a GPU and none of the project's packages:
# the tests of GPUs, the benchmarks and the whole program, built here and stripped, with their shared
# libraries, Open MPI's plugins and help texts, a small dataset, and the scripts. CUDA's own
# libraries (cuDNN, cuBLASLt, NCCL) are the other machine's, as are the driver and PyTorch.
#
#   tests/gpu/pack.sh [--build FOLDER] [--torch-engine FILE] ARCHIVE.tar.xz
#   tests/gpu/pack.sh [--build FOLDER] --list
#
#   --build FOLDER       take the programs of that build; default: build/pack, which is configured for
#                        sm_80 and sm_90 and built first
#   --torch-engine FILE  the PyTorch benchmark to measure beside (see tests/gpu/peer.py)
#   --list               print what would be packed, "PLACE FILE" a line, and stop; a PLACE that ends
#                        with / is a folder
#
# Fails when the archive is larger than 40 MiB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
most_mib=40

usage() { sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
refuse() {
    echo "pack.sh: $*; see --help" >&2
    exit 2
}
build='' torch_engine='' archive='' list=false
while (($# > 0)); do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --list) list=true ;;
        --build | --torch-engine)
            (($# > 1)) || refuse "$1 needs a value"
            if [[ $1 == --build ]]; then build=$2; else torch_engine=$2; fi
            shift
            ;;
        -*) refuse "unknown option $1" ;;
        *) archive=$1 ;;
    esac
    shift
done
$list || [[ -n $archive ]] || refuse "where to?"
[[ -z $torch_engine || -r $torch_engine ]] || refuse "$torch_engine cannot be read"

if [[ -z $build ]]; then
    build=build/pack
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOHORT_BUILD_TESTS=ON \
        -DCOHORT_CUDA=TOOLKIT '-DCOHORT_CUDA_ARCHITECTURES=80-real;90-real'
    cmake --build "$build" --target gpu_suite cohort
fi

mpi_folder() { ompi_info --path "$1" --parsable | sed -n "s/^path:$1://p"; }

# The entries of ctest that run on a GPU, and what a rehearsal runs in their place: a line
# "NAME gpu|cpu shared|alone SECONDS PROGRAM FILTER", separated by tabs.
entries() {
    ctest --test-dir "$build" --show-only=json-v1 2>/dev/null | python3 -c '
import json
import pathlib
import re
import sys
for test in json.load(sys.stdin)["tests"]:
    words = test.get("command", [])
    name = pathlib.Path(words[0]).name if len(words) == 2 else ""
    if re.fullmatch("(train_)?gpu_.*_test", name) and "_on_cpu_" not in name and \
            words[1].startswith("--gtest_filter="):
        of = {one["name"]: one["value"] for one in test["properties"]}
        print(test["name"], "gpu" if "gpu" in of["LABELS"] else "cpu",
              "alone" if of.get("RUN_SERIAL") else "shared", int(of["TIMEOUT"]), name, words[1], sep="\t")
'
}

entries=$(entries)
mapfile -t programs < <(cut -f5 <<<"$entries" | sort -u | sed "s|^|$build/tests/|")
# What mpirun is, and what it starts. A name that is not found stays a name.
daemons=(orted)
command -v orted >/dev/null || daemons=(prterun prted) # Open MPI 5
mapfile -t daemons < <(for name in "${daemons[@]}"; do command -v "$name" || echo "$name"; done)
mpirun=$(readlink -f "$(command -v mpirun || echo mpirun)")
programs+=("$build/tests/gpu_bench" "$build/tests/gpu_accuracy" "$build/jobs/cohort" "${daemons[@]}")

# Open MPI's plugins without those for networks and batch systems that a single machine has not,
# whose libraries are large. Open MPI 5 has them within its libraries.
mapfile -t plugins < <(find -L "$(mpi_folder pkglibdir)" -name 'mca_*.so' | sort |
    grep -vE '_(ucx|ofi|openib|psm2?|cm|slurm|flux|jsm|gridengine|monitoring|romio321)\.so$')

# Shared libraries that the programs and plugins need, but the C library's.
libraries() {
    local found
    found=$(ldd "${programs[@]}" "$mpirun" "${plugins[@]}")
    if grep 'not found' <<<"$found" >&2; then
        echo "pack.sh: these libraries are missing here" >&2
        exit 3
    fi
    awk '$2 == "=>" && $3 ~ /^\// {print $3}' <<<"$found" | sort -u |
        grep -vE '/lib(c|m|dl|rt|pthread|resolv|util)\.so\.[0-9]+$'
}

contents() {
    local texts
    printf 'bin/ %s\n' "${programs[@]}"
    echo "bin/mpirun $mpirun"
    ((${#plugins[@]} == 0)) || printf 'lib/openmpi/ %s\n' "${plugins[@]}"
    libraries | sed 's|^|lib/ |'
    texts=$(mpi_folder pkgdatadir)
    find -L "$texts" -name '*.txt' | sort | sed 's|^|share/openmpi/ |'
    [[ ! -d ${texts%/*}/prte ]] ||
        find -L "${texts%/*}/prte" -name '*.txt' | sort | sed 's|^|share/prte/ |'
    printf './ tests/gpu/%s\n' run.sh table.py peer.py kernels.py
}

missing() {
    echo "pack.sh: $* missing; build gpu_suite and cohort in $build, or run jobs/install_deps.sh --dev" >&2
    exit 3
}
for program in "${programs[@]}" "$mpirun"; do
    [[ -x $program ]] || missing "$program is"
done
listing=$(contents)
if $list; then
    echo "$listing"
    exit 0
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
while read -r place file; do
    if [[ $place == */ ]]; then
        install -D -t "$folder/$place" "$file"
    else
        install -D "$file" "$folder/$place"
    fi
done <<<"$listing"
if [[ -n $torch_engine ]]; then
    install -T "$torch_engine" "$folder/torch_engine.py"
fi
find "$folder/bin" "$folder/lib" -type f -exec strip --strip-unneeded {} +
echo "$entries" >"$folder/entries.tsv"

# Images of two kinds, for the whole program: those with a bright half at the top, or at the bottom.
python3 - "$folder" <<'END'
import random
import struct
import sys
draw = random.Random(1)
for group, count in (("train", 1024), ("t10k", 256)):
    labels = [draw.randrange(2) for _ in range(count)]
    pixels = bytes(draw.randrange(100) + (100 if (row < 14) == (label == 0) else 0)
                   for label in labels for row in range(28) for _ in range(28))
    with open(f"{sys.argv[1]}/{group}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28) + pixels)
    with open(f"{sys.argv[1]}/{group}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + bytes(labels))
END
"$build/jobs/cohort" import --format idx --input "$folder" --output "$folder/halves.h5" >/dev/null
rm "$folder"/*-ubyte

# The newest version of the C library that any of it asks for.
find "$folder/bin" "$folder/lib" -type f -exec objdump -T {} + | grep -oE 'GLIBC_[0-9.]+' |
    sed 's/GLIBC_//' | sort -uV | tail -n 1 >"$folder/glibc"
"$build/jobs/cohort" --version >"$folder/version"

tar -C "$folder" -cf - . | xz -T1 --lzma2=preset=6,dict=64MiB >"$archive"
bytes=$(stat -c %s "$archive")
printf '%s: %d.%d MiB, needs glibc %s\n' "$archive" $((bytes >> 20)) $(((bytes & 1048575) * 10 >> 20)) \
    "$(cat "$folder/glibc")"
if ((bytes > most_mib << 20)); then
    echo "pack.sh: more than $most_mib MiB" >&2
    exit 1
fi
