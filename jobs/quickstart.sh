#!/usr/bin/env bash
# From a fresh Debian 12 or 13 machine to trained networks: installs what is missing, builds, imports
# Fashion-MNIST into HDF5 and trains LeNet on it with four workers, one of them at half its speed:
# once with a parameter server, once as a ring. Then it shows what waiting for a slow worker costs:
# ssgd and adaptive train a small network to the same accuracy, one of four workers at a quarter of
# the others' speed. Can be run again; what is there is kept, the training starts from its beginning.
#
# Before it trains, the script measures some updates and says how long the rest will take. Without
# --samples and --epochs a network for images trains on as many as this machine's cores manage in
# TRAINING_S seconds (40), at most one epoch, so that all of it ends within about two minutes.
#
#   jobs/quickstart.sh [TRAIN-OPTION...]    e.g. --arch servers --mode asgd
#   jobs/quickstart.sh --model lstm         a language model of the King James Bible, which then writes
#
# Takes every option of `cohort train`; what is given, here or in a --config file, replaces the
# choice made below, and the comparison of ssgd and adaptive is left out. With --arch, --out or
# --config there is one training instead of two. Relative paths start at the root of the source
# tree. WORKERS=N and TRAINING_S=SECONDS in the environment: another number of workers (4), other
# seconds for a training.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

idx_folder=/usr/share/datasets/fashion-mnist
data=data/fashion-mnist.h5
runs=runs/quickstart
workers=${WORKERS:-4}
training_s=${TRAINING_S:-40}
accuracy=0.80
build=build/release
cohort=$build/jobs/cohort

step() { printf '\n== %s\n' "$*"; }

step "packages"
jobs/install_deps.sh

step "build"
configure=()
if [[ -e $build/CMakeCache.txt ]]; then # it goes on as it began, with its tests: nothing is compiled twice
    ! grep -q '^COHORT_BUILD_TESTS:BOOL=ON' "$build/CMakeCache.txt" || configure=(-DCOHORT_BUILD_TESTS=ON)
elif command -v ccache >/dev/null; then
    configure=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
cmake --preset release "${configure[@]}"
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

settings=$("$cohort" train "${arguments[@]}" --dump-config)

# setting NAME: the value of an effective option, of the settings in `settings`.
setting() { sed -nE "/^$1 = /{s/^$1 = \"?//;s/\"?\$//p;q}" <<<"$settings"; }

text=no
case $(setting model) in
    lstm | transformer | gpt*) text=yes data=data/kjv.h5 ;;
esac

options=()
given --data || options+=(--data "$data")
given --resume --overwrite || options+=(--overwrite)
given --model || options+=(--model lenet)
given --batch || options+=(--batch 32)
if [[ $text == yes ]] && ! given --optimizer --lr; then
    options+=(--optimizer adamw --lr 0.002)
fi
given --lr-schedule || options+=(--lr-schedule cosine:0)

# The King James Bible, a verse per line, without the verses' numbers.
import_kjv() {
    bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >"${data%.h5}.txt"
    "$cohort" import --format text --input "${data%.h5}.txt" --vocabulary 8000 \
        --test-fraction 0.1 --output "$data" --overwrite
}

if ! given --data; then
    step "data"
    if [[ -e $data ]] && "$cohort" info --data "$data" >/dev/null; then
        echo "$data is there and intact"
    else
        mkdir -p "$(dirname "$data")"
        if [[ $text == yes ]]; then
            import_kjv
        else
            "$cohort" import --format idx --input "$idx_folder" --output "$data" --overwrite
        fi
    fi
fi

# prepare [OPTION...]: what one training with four workers needs, one of them slowed: its options in
# `command`, its number of ranks in `ranks`, its settings in `settings`.
prepare() {
    command=("${options[@]}" "$@" "${arguments[@]}")
    settings=$("$cohort" train "${command[@]}" --dump-config)
    local servers=0
    if [[ $(setting arch) == servers ]]; then
        servers=$(setting servers)
        servers=$((servers > 0 ? servers : 1))
    fi
    ranks=$((servers + workers))
    if ! given --inject && ((workers > 1)); then
        command+=(--inject "rank=$((ranks - 1)),cpu=0.5")
    fi
}

train_with() {
    prepare "$@"
    if ! given --inject && ((workers > 1)); then
        echo "worker $((workers - 1)) (rank $((ranks - 1))) computes at half its speed"
    fi
    outs+=("$(setting out)")
    COHORT=$cohort jobs/launch.sh -n "$ranks" -- train "${command[@]}"
}

# probe UPDATES OPTION...: so many updates of a training with these options, in the folder $scratch/probe.
probe() {
    local updates=$1 samples status=0
    shift
    rm -rf "$scratch/probe"
    samples=$((updates * workers * $(setting batch)))
    if (($(setting samples) > 0 && $(setting samples) < samples)); then
        samples=$(setting samples)
    fi
    "$cohort" train "$@" --dump-config |
        sed -E '/^(samples|epochs|out|record-.*|timeline|tensorboard|metrics-.*) = /d' >"$scratch/probe.toml"
    COHORT=$cohort jobs/launch.sh -n "$ranks" -- train --config "$scratch/probe.toml" \
        --samples "$samples" --log-every-s 0.1 --out "$scratch/probe" >"$scratch/log" 2>&1 || status=$?
    if ((status > 0)); then
        cat "$scratch/log"
        exit "$status"
    fi
}

# measure TRAININGS [OPTION...]: says how long so many trainings take together, from a few updates of the
# same job, or from more of them where these are quick; without --samples and --epochs it first chooses the
# number of samples.
measure() {
    local trainings=$1 updates
    shift
    if given --resume && ! given --samples --epochs; then # as many as the run that goes on
        settings=$("$cohort" train "${options[@]}" "$@" "${arguments[@]}" --dump-config)
        options+=(--samples "$(python3 - "$(setting out)/metrics.jsonl" <<'END'
import json
import os
import sys

chosen = 0
if os.path.exists(sys.argv[1]):
    with open(sys.argv[1], encoding="utf-8") as lines:
        chosen = json.loads(lines.readline())["options"]["samples"]
print(chosen)
END
        )")
    fi
    if given --resume --inject --dry-run --target-accuracy --target-loss; then
        return # how long these take is not known beforehand
    fi
    step "how long it will take: some updates are measured"
    prepare "$@"
    for updates in 2 20; do
        probe "$updates" "${command[@]}"
        read -r seconds samples sentence < <(python3 - "$scratch/probe/metrics.jsonl" "$trainings" "$text" \
            "$(setting samples)" "$(setting epochs)" "$training_s" <<'END'
import json
import sys

path, trainings, text, samples, epochs, training_s = sys.argv[1:]
with open(path, encoding="utf-8") as lines:
    events = [json.loads(line) for line in lines]
train = [event for event in events if event["event"] == "train"]
first, last = train[0], train[-1]
if last["train_s"] > first["train_s"]:  # the first updates also prepare
    speed = (last["samples_applied"] - first["samples_applied"]) / (last["train_s"] - first["train_s"])
else:
    speed = last["samples_applied"] / last["train_s"]
epoch = events[0]["train_samples"]
chosen = int(samples) or int(epochs) * epoch
if not chosen:
    chosen = epoch if text == "yes" else max(1, min(epoch, int(float(training_s) * speed)))
seconds = int(trainings) * chosen / speed
unit = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
print(round(last["train_s"]), chosen, f"{speed:.0f} samples/s: training on {chosen:,} samples"
      + (f", {trainings} times," if trainings != "1" else "") + f" takes about {unit}")
END
        )
        if ((seconds > 2)); then
            break
        fi
    done
    given --samples --epochs || options+=(--samples "$samples")
    echo "$sentence"
}

outs=()
case " ${arguments[*]} " in
    *" --dump-config "*) exec "$cohort" train "${options[@]}" --out "$runs" "${arguments[@]}" ;;
esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
started=$scratch/started
touch "$started"
if given --arch || given --out || [[ -n $config ]]; then
    given --out || options+=(--out "$runs")
    measure 1
    step "training"
    train_with
else
    measure 2 --arch servers --out "$runs/servers"
    step "training with $workers workers and a parameter server"
    train_with --arch servers --out "$runs/servers"
    step "training with $workers workers as a ring"
    train_with --arch ring --out "$runs/ring"
fi

# compare MODE...: trains with each mode to the same accuracy on workers that sleep most of the
# time, so that this machine's cores are enough for all of them.
compare() {
    local mode worker inject
    step "what a slow worker costs: $*"
    cat <<END
The network, the gradients and what goes between the ranks are real. To each sample a worker adds
2 ms of sleep, many times what computing it takes, as if its device were that slow; the last worker
adds 8 ms. Each mode ends at a test accuracy of $accuracy.
END
    for ((worker = 0; worker < workers; worker++)); do
        inject+="rank=$((worker + 1)),sample=$((worker + 1 < workers ? 2 : 8))ms;"
    done
    for mode; do
        printf '\n-- %s\n' "$mode"
        COHORT=$cohort jobs/launch.sh -n $((workers + 1)) -- train --data "$data" --arch servers \
            --mode "$mode" --model smallcnn --batch 32 --lr 0.03 --threads 1 --overwrite \
            --samples 100000 --target-accuracy "$accuracy" --eval-every-samples 1280 \
            --checkpoint-every-s 0 --inject "${inject%;}" --out "$runs/$mode"
    done
    python3 - "$accuracy" "${@/#/$runs/}" <<'END'
import json
import sys

rows = []
for out in sys.argv[2:]:
    with open(f"{out}/metrics.jsonl", encoding="utf-8") as lines:
        rows.append(json.loads(lines.readlines()[-1]))
print(f"\n== one of {rows[0]['workers']} workers at a quarter of the others' speed")
print(f"{'':10}{'seconds to ' + sys.argv[1]:>20}{'samples/s':>14}{'samples':>12}")
for row in rows:
    seconds = "not reached" if row["tta_s"] is None else f"{row['tta_s']:.1f}"
    print(f"{row['mode']:10}{seconds:>20}{row['samples_per_s']:>14.0f}{row['samples_applied']:>12}")
first, last = rows[0], rows[-1]
if first["tta_s"] and last["tta_s"]:
    print(f"{last['mode']} takes {100 * (1 - last['tta_s'] / first['tta_s']):.0f} % less time than {first['mode']}")
END
    printf '\n== who waited for whom, and why\n'
    "$cohort" report "${@/#/$runs/}" --out "$runs/compare.html"
}

# Shows what this run wrote; a dry run writes nothing.
python3 - "$started" "${outs[@]}" <<'END'
import json
import os
import sys

rows = []
for out in sys.argv[2:]:
    metrics = f"{out}/metrics.jsonl"
    if os.path.exists(metrics) and os.path.getmtime(metrics) >= os.path.getmtime(sys.argv[1]):
        with open(metrics, encoding="utf-8") as lines:
            rows.append((out, json.loads(lines.readlines()[-1])))
if not rows:
    sys.exit()
print("\n== result")
print(f"{'':22}" + "".join(f"{row['arch'] + ' ' + row['mode']:>20}" for _, row in rows))
for title, text in (
        ("ranks", lambda r: f"{r['servers']} + {r['workers']}" if r["servers"] else r["workers"]),
        ("test accuracy", lambda r: "" if r.get("test_accuracy") is None else f"{100 * r['test_accuracy']:.2f} %"),
        ("test loss", lambda r: "" if r["test_loss"] is None else f"{r['test_loss']:.4f}"),
        ("test perplexity", lambda r: f"{r['test_perplexity']:.2f}" if "test_perplexity" in r else ""),
        ("training speed", lambda r: f"{r['samples_per_s']:.0f} samples/s"),
        ("wall time", lambda r: f"{r['wall_s']:.1f} s"),
        ("sent between ranks", lambda r: f"{r['bytes_sent'] / 2**30:.2f} GiB")):
    if any(text(row) for _, row in rows):
        print(f"{title:22}" + "".join(f"{text(row):>20}" for _, row in rows))
for out, _ in rows:
    print("model and metrics     " + ", ".join(file for file in (f"{out}/model.h5", f"{out}/metrics.jsonl")
                                                if os.path.exists(file)))
END

if [[ $text == yes ]]; then
    step "what the model writes"
    for out in "${outs[@]}"; do
        [[ $out/model.h5 -nt $started ]] || continue # a dry run writes nothing
        "$cohort" generate --model-file "$out/model.h5" --prompt "In the beginning" --tokens 60 \
            --temperature 0.8 --top-k 40
    done
fi
if (($# == 0)); then
    compare ssgd adaptive
fi
