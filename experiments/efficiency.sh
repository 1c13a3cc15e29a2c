#!/bin/sh
# The sweeps that `cohort efficiency train` learns from, and the training (docs/efficiency.md): three models, six
# learning rates, without momentum and with it, with and without the look-ahead. Some 650 runs of a second or two.
#
#   experiments/efficiency.sh COHORT DATA FOLDER [JOBS]
set -eu
if [ $# -lt 3 ]; then
    echo "usage: experiments/efficiency.sh COHORT DATA FOLDER [JOBS]" >&2
    exit 2
fi
cohort=$1 data=$2 folder=$3 jobs=${4:-1}
here=$(dirname "$0")
mkdir -p "$folder"

sweep() {  # model lr momentum stale-momentum
    for kind in efficiency efficiency-slow; do
        "$cohort" sweep "$here/$kind.toml" --out "$folder/$kind-$1-$2-$3-$4" --jobs "$jobs" \
            --set "data=$data" --set "model=$1" --set "lr=$2" --set "momentum=$3" --set "stale-momentum=$4"
    done
}

for model in smallcnn softmax mlp; do
    for lr in 0.0125 0.025 0.05 0.1 0.2 0.4; do
        sweep $model $lr 0 keep
    done
    for lr in 0.005 0.01 0.02 0.04 0.1 0.2; do
        sweep $model $lr 0.9 keep
        sweep $model $lr 0.9 look-ahead
    done
done
"$cohort" efficiency train "$folder"/efficiency* --out "$folder/model.toml" --overwrite
