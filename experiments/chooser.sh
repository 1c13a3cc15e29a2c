#!/bin/sh
# The sweeps that `cohort chooser train` learns from, and the training (docs/choosers.md): two workloads, servers
# beside the workers, on nodes of their own, and rings. Some 1,130 runs.
#
#   experiments/chooser.sh COHORT FOLDER [JOBS]
set -eu
if [ $# -lt 2 ]; then
    echo "usage: experiments/chooser.sh COHORT FOLDER [JOBS]" >&2
    exit 2
fi
cohort=$1 folder=$2 jobs=${3:-1}
here=$(dirname "$0")
mkdir -p "$folder"

sweep() {  # name experiment option...
    name=$1 experiment=$2
    shift 2
    "$cohort" sweep "$here/$experiment.toml" --out "$folder/$name" --jobs "$jobs" "$@"
}

for workload in resnet50 vgg16; do
    sweep "rates-shared-$workload" chooser-rates --set "time-as=$workload"
    sweep "rates-own-$workload" chooser-rates --set "time-as=$workload" --set server-nodes=own --set servers=2
    sweep "rates-ring-$workload" chooser-rates-ring --set "time-as=$workload"
done
"$cohort" chooser train "$folder"/rates-* --out "$folder/weights.toml" --overwrite
