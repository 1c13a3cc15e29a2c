#!/bin/sh
# The sweeps that `cohort efficiency train` learns from, and the training (docs/efficiency.md): four models, learning
# rates a factor of two apart, without momentum and with it. Some 900 runs, half an hour of one core.
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

sweep() {  # experiment model momentum stale-momentum rates...
    experiment=$1 model=$2 momentum=$3 stale=$4
    shift 4
    for lr in "$@"; do
        "$cohort" sweep "$here/$experiment.toml" --out "$folder/$model-$lr-$momentum-$stale" --jobs "$jobs" \
            --set "data=$data" --set "model=$model" --set "lr=$lr" --set "momentum=$momentum" \
            --set "stale-momentum=$stale"
    done
}

for model in softmax smallcnn; do
    sweep efficiency-small "$model" 0 look-ahead 0.0125 0.025 0.05 0.1 0.2 0.4
    sweep efficiency-small "$model" 0.9 look-ahead 0.005 0.01 0.02 0.04 0.08 0.16
    sweep efficiency "$model" 0.9 keep 0.005 0.01 0.02 0.04 0.08 0.16
done
sweep efficiency mlp 0 look-ahead 0.0125 0.025 0.05 0.1 0.2 0.4
sweep efficiency mlp 0.9 look-ahead 0.005 0.01 0.02 0.04 0.08 0.16
sweep efficiency-large lenet 0.9 look-ahead 0.0025 0.005 0.01 0.02
sweep efficiency-large lenet 0 look-ahead 0.0125 0.025 0.05
for model in softmax smallcnn mlp lenet; do
    for momentum in 0 0.9; do
        case $model-$momentum in
            lenet-0) rates="0.0125 0.025 0.05" ;;
            lenet-*) rates="0.0025 0.005 0.01 0.02" ;;
            *-0) rates="0.0125 0.025 0.05 0.1 0.2 0.4" ;;
            *) rates="0.005 0.01 0.02 0.04 0.08 0.16" ;;
        esac
        for lr in $rates; do
            "$cohort" sweep "$here/efficiency-local.toml" --out "$folder/local-$model-$lr-$momentum-look-ahead" \
                --jobs "$jobs" --set "data=$data" --set "model=$model" --set "lr=$lr" --set "momentum=$momentum"
        done
    done
done
"$cohort" efficiency train "$folder"/*-look-ahead "$folder"/*-keep --out "$folder/model.toml" --overwrite
