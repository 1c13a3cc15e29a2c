#!/usr/bin/env bash
# From a fresh Debian 12 machine to a trained network: installs what is missing, builds, imports
# Fashion-MNIST into HDF5 and trains LeNet on it. Can be run again; what is there is kept, the
# training starts anew.
#
#   jobs/quickstart.sh [TRAIN-OPTION...]    e.g. --model resnet20 --epochs 10 --threads 2
#
# Takes every option of `cohort train`; what is given, here or in a --config file, replaces the
# choice made below. Relative paths start at the root of the source tree.
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

arguments=("$@")
config=
for ((i = 0; i < $#; i++)); do
    case ${arguments[i]} in
        --help | -h) exec "$cohort" train --help ;;
        --config) config=${arguments[i + 1]-} ;;
        --config=*) config=${arguments[i]#--config=} ;;
    esac
done

# Whether one of these options was given.
given() {
    local name argument
    for name; do
        for argument in "${arguments[@]}"; do
            [[ $argument == "$name" || $argument == "$name="* ]] && return
        done
        [[ -f $config ]] && grep -Eq "^[[:space:]]*${name#--}[[:space:]]*=" "$config" && return
    done
    return 1
}

options=()
given --data || options+=(--data "$data")
given --out || options+=(--out "$out")
given --resume --overwrite || options+=(--overwrite)
given --model || options+=(--model lenet)
given --batch || options+=(--batch 128)
given --samples --epochs || options+=(--epochs 5)
given --lr-schedule || options+=(--lr-schedule cosine:0)

if ! given --data; then
    step "data"
    if [[ -e $data ]] && "$cohort" info --data "$data" >/dev/null; then
        echo "$data is there and intact"
    else
        mkdir -p "$(dirname "$data")"
        "$cohort" import --format idx --input "$idx_folder" --output "$data"
    fi
fi

step "training"
# The other threads of a multi-threaded library would spin while they wait and cost this run cores.
export OMP_WAIT_POLICY=passive
started=$(mktemp)
trap 'rm -f "$started"' EXIT
"$cohort" train "${options[@]}" "$@"

# Shows the result if this run wrote one, which a dry run does not.
settings=$("$cohort" train "${options[@]}" "$@" --dump-config)
python3 - "$settings" "$started" <<'END'
import json
import os
import sys
import tomllib

out = tomllib.loads(sys.argv[1])["out"]
metrics = f"{out}/metrics.jsonl"
if not os.path.exists(metrics) or os.path.getmtime(metrics) < os.path.getmtime(sys.argv[2]):
    sys.exit()
with open(metrics, encoding="utf-8") as lines:
    summary = json.loads(lines.readlines()[-1])
print("\n== result")
print(f"test accuracy   {100 * summary['test_accuracy']:.2f} %")
print(f"test loss       {summary['test_loss']:.4f}")
print(f"training speed  {summary['samples_per_s']:.0f} samples/s")
print(f"wall time       {summary['wall_s']:.1f} s")
print(f"model           {out}/model.h5")
print(f"metrics         {metrics}")
END
