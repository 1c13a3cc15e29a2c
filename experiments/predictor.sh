#!/usr/bin/env bash
# The shipped predictor: records virtual runs of many patterns, trains the LSTM on them, and scores all
# predictors on runs of other seeds. The tables of docs/prediction.md.
#
#   experiments/predictor.sh train DIR   # DIR/model.h5, about 20 minutes on a core
#   experiments/predictor.sh score DIR [MODEL]
#
# COHORT names the program; cohort of the PATH by default.
set -euo pipefail

cohort=${COHORT:-cohort}

# record OUT PATTERN SEED MODE SERVERS SERVER_NODES SAMPLES
record() {
    "$cohort" simulate --no-train --record-load --overwrite --time-as resnet50 --profile 8gpu-10g \
        --workers 8 --pattern "$2" --pattern-seed "$3" --mode "$4" --servers "$5" \
        --server-nodes "$6" --samples "$7" --out "$1" 2>>"$dir/log.txt"
}

# Seeds from 101 on are for training; those below are for results.
train() {
    local count=0 pattern seed mode servers nodes
    for pattern in onoff:2 onoff:3 onoff:5 clustered:2 clustered:3 bandwidth:3 bandwidth:5 \
        transient:2 transient:5 blip:5 persistent:2 delay:2 storm:2 storm:3; do
        for seed in 101 102 103 104; do
            for mode in ssgd asgd; do
                for servers in "8 shared" "2 own"; do
                    nodes=${servers#* }
                    count=$((count + 1))
                    record "$dir/train/$count" "$pattern" "$seed" "$mode" "${servers% *}" \
                        "$nodes" 350000
                done
            done
        done
    done
    "$cohort" predictor train "$dir"/train/* --out "$dir/model.h5" --overwrite --epochs 45 --patience 45 \
        --stride 48
}

score() {
    local pattern seed mode servers nodes
    for servers in "8 shared" "2 own"; do
        nodes=${servers#* }
        for mode in ssgd asgd; do
            for pattern in onoff:3 clustered:2 bandwidth:5 transient:5 storm persistent:2; do
                for seed in 1 2 3; do
                    record "$dir/score/$nodes-$mode/$pattern-$seed" "$pattern" "$seed" "$mode" \
                        "${servers% *}" "$nodes" 600000
                done
            done
            echo "servers on $nodes nodes, $mode"
            "$cohort" predictor score "$dir/score/$nodes-$mode"/* --model "$model" \
                --predictors last,ewma,episodes,lstm,auto,oracle
        done
    done
}

usage() {
    echo "usage: experiments/predictor.sh train DIR | score DIR [MODEL]" >&2
    exit 2
}

[ $# -ge 2 ] || usage
dir=$2
model=${3:-}
mkdir -p "$dir"
case $1 in
    train) train ;;
    score) score ;;
    *) usage ;;
esac
