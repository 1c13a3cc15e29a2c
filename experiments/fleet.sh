#!/bin/sh
# The fleets behind the tables of docs/fleet.md: fleet-350.toml under each mode and chooser as published (servers spread
# evenly, shards that stay), and with what the fleet can do for them; fleet-rings.toml (rows rings-*, not among the default ones). A fleet of 350 jobs takes 3 to 15 minutes of one
# core; one that is whole is left alone, so the script can be stopped and started again.
#
#   experiments/fleet.sh COHORT DATA FOLDER [LANES] [RATES] [SEEDS] [JOBS] [ROWS]
#   experiments/fleet.sh build/release/jobs/cohort fashion-mnist.h5 fleets 2 "80 160 320" "1 2 3" 350 "ssgd adaptive-all"
#   experiments/fleet.sh build/release/jobs/cohort fashion-mnist.h5 fleets 2 960 1 350 "rings-ssgd rings-localsgd rings-adaptive"
set -eu
if [ $# -lt 3 ]; then
    echo "usage: experiments/fleet.sh COHORT DATA FOLDER [LANES] [RATES] [SEEDS] [JOBS] [ROWS]" >&2
    exit 2
fi
cohort=$1 data=$2 folder=$3 lanes=${4:-1} rates=${5:-80 160 320} seeds=${6:-1} jobs=${7:-350}
published="ssgd asgd sync-switch lb-bsp lgc zeno++ ssgd-or-asgd star-h star-ml localsgd adaptive"
ours="ssgd-waits adaptive-waits adaptive-rebalance adaptive-tree adaptive-room adaptive-all star-h-all star-ml-all star-h-star"
rings="ring-ssgd ring-star-ml ring-localsgd ring-adaptive"
rows=${8:-$published $ours $rings}
here=$(dirname "$0")
mkdir -p "$folder"

settings() {  # the --set options of a row
    case $1 in
        ring-*) echo "defaults.arch=ring" ;;
        rings-*) ;;
        *-waits) echo "fleet.server-placement=waits defaults.rebalance-servers=off" ;;
        *-rebalance) echo "fleet.server-placement=even defaults.rebalance-servers=on" ;;
        *-tree) echo "fleet.server-placement=even defaults.rebalance-servers=off defaults.push-tree=auto" ;;
        *-room) echo "fleet.server-placement=even defaults.rebalance-servers=off fleet.make-room=shortest" ;;
        *-all) echo "fleet.server-placement=waits defaults.rebalance-servers=on fleet.make-room=shortest" ;;
        *-star) echo "fleet.server-placement=star defaults.rebalance-servers=off fleet.make-room=star" ;;
        *) echo "fleet.server-placement=even defaults.rebalance-servers=off" ;;
    esac
    mode=$1
    for word in waits rebalance tree room all star; do mode=${mode%-"$word"}; done
    mode=${mode#ring-}
    case $mode in  # the best rate of 0.01, 0.02, 0.04, ... with 24 jobs, 160 per hour, seed 77
        asgd | star-ml) lr=0.04 ;;
        sync-switch) mode=sync-switch:0.0625 lr=0.04 ;;
        localsgd) mode=localsgd:8 lr=0.04 ;;
        lgc) mode=lgc:1 lr=0.08 ;;
        rings-localsgd) mode=localsgd:8 lr=0.08 ;;
        rings-*) mode=${mode#rings-} lr=0.08 ;;
        *) lr=0.08 ;;
    esac
    echo "defaults.lr=$lr"
    echo "defaults.mode=$mode"
}

for seed in $seeds; do
    for rate in $rates; do
        for row in $rows; do
            out=$folder/$row-$rate-$seed
            case $row in rings-*) file=fleet-rings.toml alone=on ;; *) file=fleet-350.toml alone=off ;; esac
            printf '%s\0' "$cohort fleet '$here/$file' --out '$out' --resume --label '$row' --threads 1 --alone $alone \
                $(settings "$row" | tr ' ' '\n' | sed 's/^/--set /' | tr '\n' ' ') --set 'defaults.data=$data' \
                --set arrivals.rate=$rate --set arrivals.seed=$seed --set arrivals.jobs=$jobs > '$out.log' 2>&1"
        done
    done
done | xargs -0 -r -P "$lanes" -n 1 sh -c
