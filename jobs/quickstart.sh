#!/usr/bin/env bash
# From a fresh Debian 12 machine to a trained network: installs what is missing, builds, imports
# Fashion-MNIST into HDF5 and trains LeNet on it. Can be run again; what is there is kept, the
# training starts anew.
#
#   jobs/quickstart.sh [TRAIN-OPTION...]    e.g. --model resnet20 --epochs 10 --threads 2
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

idx_folder=/usr/share/datasets/fashion-mnist
data=data/fashion-mnist.h5
out=runs/quickstart
build=build/release
cohort=$build/jobs/cohort

step() { printf '\n== %s\n' "$*"; }

step "packages"
jobs/install_deps.sh

step "build"
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
cmake --preset release "${launcher[@]}"
cmake --build "$build" --parallel "$(nproc)" --target cohort

step "data"
# A dry run opens and checks the file and trains nothing.
if [[ -e $data ]] && "$cohort" train --data "$data" --out "$out" --overwrite --dry-run >/dev/null; then
    echo "$data is there and intact"
else
    mkdir -p "$(dirname "$data")"
    "$cohort" import --format idx --input "$idx_folder" --output "$data"
fi

step "training"
# The other threads of a multi-threaded library would spin while they wait and cost this run cores.
export OMP_WAIT_POLICY=passive
options=()
default() {
    [[ " $given " == *" $1 "* || " $given " == *" $1="* ]] || options+=("$1" "$2")
}
given=$*
default --model lenet
default --batch 128
default --epochs 5
default --lr-schedule cosine:0
"$cohort" train --data "$data" --arch ring --mode ring --out "$out" --overwrite "${options[@]}" "$@"

step "result"
python3 - "$out" <<'END'
import json
import sys

out = sys.argv[1]
with open(f"{out}/metrics.jsonl", encoding="utf-8") as lines:
    summary = json.loads(lines.readlines()[-1])
print(f"test accuracy   {100 * summary['test_accuracy']:.2f} %")
print(f"test loss       {summary['test_loss']:.4f}")
print(f"training speed  {summary['samples_per_s']:.0f} samples/s")
print(f"wall time       {summary['wall_s']:.1f} s")
print(f"model           {out}/model.h5")
print(f"metrics         {out}/metrics.jsonl")
END
