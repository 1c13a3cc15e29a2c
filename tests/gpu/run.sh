#!/usr/bin/env bash
# Builds the engine with its CUDA backend, tests it, checks it with compute-sanitizer, measures it
# beside PyTorch, and prints a short table last: one call, under nine minutes, on a machine with a
# GPU, nvcc and cuDNN, but without MPI, HDF5 and the other packages of the whole program.
#
#   tests/gpu/run.sh [--deps ARCHIVE] [--torch-engine FILE] [--steps LIST] [--limit-s 530]
#                    [--build FOLDER] [--out FOLDER] [--data FOLDER] [--jobs N] [--without-gpu]
#
#   --deps ARCHIVE       what tests/gpu/pack.sh made; without it the packages have to be installed
#   --torch-engine FILE  a PyTorch benchmark to measure beside (see tests/gpu/peer.py)
#   --steps LIST         of build,test,bench,sanitize,peer,accuracy; default: all but the last
#   --limit-s SECONDS    for everything; each step gets what is left, at most its own limit
#   --jobs N             compilers at a time; default: as many as there are cores
#   --data FOLDER        IDX files for the accuracy (tests/gpu/idx_from_h5.py); it takes longer
#   --without-gpu        a rehearsal on a machine that has none: tests of GPUs are skipped, the CPU is
#                        measured in their place
# The exit code is 0 when everything asked for has passed. Logs and results: FOLDER of --out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

jobs=$(nproc)
deps="" torch_engine="" steps=build,test,bench,sanitize,peer limit_s=530
build=build/gpu out=build/gpu-results data="" gpu=true
while (($# > 0)); do
    case "$1" in
        --without-gpu) gpu=false; shift; continue ;;
        -h | --help) sed -n '2,21s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    esac
    if (($# < 2)); then
        echo "run.sh: $1 needs a value or is unknown; see --help" >&2
        exit 2
    fi
    case "$1" in
        --deps) deps=$2 ;;
        --torch-engine) torch_engine=$2 ;;
        --steps) steps=$2 ;;
        --limit-s) limit_s=$2 ;;
        --jobs) jobs=$2 ;;
        --build) build=$2 ;;
        --out) out=$2 ;;
        --data) data=$2 ;;
        *) echo "run.sh: unknown option $1; see --help" >&2; exit 2 ;;
    esac
    shift 2
done
for step in ${steps//,/ }; do
    if [[ ! $step =~ ^(build|test|bench|sanitize|peer|accuracy)$ ]]; then
        echo "run.sh: unknown step '$step' in --steps; see --help" >&2
        exit 2
    fi
    if [[ $step == accuracy && -z $data ]]; then
        echo "run.sh: the step accuracy needs --data; see --help" >&2
        exit 2
    fi
done
mkdir -p "$out"
rm -f "$out"/*.log "$out"/*.jsonl
summary=()
failed=false

# run_step NAME SECONDS COMMAND...: within its own limit and what is left of the whole; the output
# goes to a log. A step that was not asked for is passed over.
run_step() {
    local name=$1 own=$2 start=$SECONDS status=0
    shift 2
    if [[ ",$steps," != *",${name%%-*},"* ]]; then
        return 1
    fi
    local left=$((limit_s - SECONDS))
    if ((left < 5)); then
        summary+=("$name: no time left")
        failed=true
        return 1
    fi
    timeout -k 5 $((left < own ? left : own)) "$@" >"$out/$name.log" 2>&1 || status=$?
    if ((status == 0)); then
        summary+=("$name: passed, $((SECONDS - start)) s")
        return 0
    fi
    failed=true
    summary+=("$name: FAILED with $status, $((SECONDS - start)) s; $out/$name.log")
    tail -n 15 "$out/$name.log" | sed "s/^/  $name: /"
    return 1
}

python=$(command -v python3 || true)
export PATH=$PATH:/usr/local/cuda/bin
nvcc=$(command -v nvcc || true)
toolkit=$(dirname "$(dirname "$(readlink -f "${nvcc:-/usr/local/cuda/bin/nvcc}")")")

# Folders of libraries that come as Python packages (nvidia-cudnn-cu13 and others, torch's own).
wheel_folders() {
    [[ -n $python ]] || return 0
    "$python" - <<'END'
import pathlib, sysconfig
root = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"
for folder in sorted(root.glob("*")):
    if (folder / "lib").is_dir() or (folder / "include").is_dir():
        print(folder)
END
}

configure_options=(-DCMAKE_BUILD_TYPE=Release -DCOHORT_PARTS=engine)
if [[ -n $deps ]]; then
    mkdir -p "$build/deps"
    tar -C "$build/deps" -xJf "$deps"
    configure_options+=("-DCMAKE_PREFIX_PATH=$PWD/$build/deps")
    export LD_LIBRARY_PATH=$PWD/$build/deps/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}
fi
while read -r folder; do
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$folder/lib
    if [[ -e $folder/include/cudnn.h && ! -e /usr/include/cudnn.h ]]; then
        configure_options+=("-DCOHORT_CUDNN_INCLUDE=$folder/include")
    fi
    if [[ -e $folder/include/cublasLt.h && ! -e $toolkit/include/cublasLt.h ]]; then
        configure_options+=("-DCOHORT_CUBLASLT_INCLUDE=$folder/include")
    fi
done < <(wheel_folders)
if $gpu; then
    configure_options+=(-DCOHORT_CUDA=ON -DCOHORT_GPU_REQUIRED=ON)
    # Machine code for this GPU alone: half the time to build.
    if capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null); then
        capability=$(head -n 1 <<<"$capability" | tr -d '. ')
        configure_options+=("-DCOHORT_CUDA_ARCHITECTURES=$capability-real")
    fi
else
    configure_options+=(-DCOHORT_CUDA=TOOLKIT)
fi
if command -v ninja >/dev/null; then
    configure_options+=(-G Ninja)
fi
if command -v ccache >/dev/null; then
    configure_options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi

build_suite() {
    cmake -S . -B "$build" "${configure_options[@]}" &&
        cmake --build "$build" --target gpu_suite --parallel "$jobs"
}

test_suite() {
    # Tests of a GPU take little of it each; in a rehearsal they are skipped, and the CPU's run.
    local label=gpu at_a_time=4
    if ! $gpu; then
        label='gpu|fast'
        at_a_time=$(nproc)
    fi
    ctest --test-dir "$build" -L "$label" -R '^(gpu|cuda)_' --no-tests=error --output-on-failure \
        --parallel "$at_a_time"
}

bench() {
    if $gpu; then
        "$build/tests/gpu_bench" --profile resnet20:128:f32 resnet20:128:bf16 resnet50:256:bf16 \
            resnet50:128:tf32 vgg16:128:bf16 lstm:128:f32 lstm:128:bf16 optimizer:sgd:25557032 \
            optimizer:adamw:25557032
    else
        "$build/tests/gpu_bench" --device cpu --steps 2 --warmup 1 --profile smallcnn:32:f32 \
            lstm:32:f32 optimizer:sgd:1000000 optimizer:adamw:1000000
    fi
}

sanitize() {
    # Memory of every kernel, on the networks of whole numbers and on replicas that are not recorded.
    compute-sanitizer --tool memcheck --error-exitcode 9 \
        "$build/tests/gpu_exact_test" --gtest_filter='*/cuda_f32_*:*/cuda_bf16_conv_3_to_8' &&
        compute-sanitizer --tool memcheck --error-exitcode 9 "$build/tests/gpu_layers_test" \
            --gtest_filter='*/cuda_bf16_*33*:*/cuda_bf16_identity_block:*/cuda_f32_lstm_9*' &&
        compute-sanitizer --tool memcheck --error-exitcode 9 "$build/tests/gpu_optim_test" \
            --gtest_filter='*/cuda_f32*' &&
        compute-sanitizer --tool racecheck --error-exitcode 9 "$build/tests/gpu_optim_test" \
            --gtest_filter='*MathOnDevice.*/cuda_f32'
}

peers() {
    "$python" tests/gpu/peer.py peak
    local step=("$python" tests/gpu/peer.py step "$torch_engine" --device cuda --steps 20)
    "${step[@]}" --model resnet20 --batch 128
    "${step[@]}" --model resnet20 --batch 128 --compile
    "${step[@]}" --model resnet50 --batch 256 --bf16 --channels-last
    "${step[@]}" --model vgg16 --batch 128 --bf16 --channels-last
    "${step[@]}" --model resnet50 --batch 256 --bf16 --channels-last --compile
    "${step[@]}" --model vgg16 --batch 128 --bf16 --channels-last --compile
}

accuracies() {
    local device=cuda
    if ! $gpu; then
        device=cpu
    fi
    local precisions=(f32)
    if $gpu; then
        precisions+=(bf16)
    fi
    for seed in 1 2 3; do
        for precision in "${precisions[@]}"; do
            "$build/tests/gpu_accuracy" --train "$data/train" --test "$data/test" --seed $seed \
                --device $device --precision "$precision"
        done
        if $gpu; then
            "$build/tests/gpu_accuracy" --train "$data/train" --test "$data/test" --seed $seed \
                --device cpu --threads "$(nproc)"
        fi
    done
}

# Subshells of `timeout` see the functions and what they use.
export -f build_suite test_suite sanitize bench peers accuracies
export build gpu data jobs torch_engine python
configure_text=$(declare -p configure_options)
export configure_text

ready=true
if [[ ",$steps," == *,build,* ]]; then
    # shellcheck disable=SC2016  # it is the new shell that has to expand it
    run_step build 240 bash -c 'eval "$configure_text"; build_suite' || ready=false
fi
if $ready; then
    run_step test 240 bash -c test_suite || true
    run_step bench 120 bash -c bench || true
    if command -v compute-sanitizer >/dev/null && $gpu; then
        run_step sanitize 90 bash -c sanitize || true
    else
        summary+=("sanitize: left out, no compute-sanitizer or no GPU")
    fi
    if $gpu && [[ -n $torch_engine ]] && "$python" -c 'import torch' 2>/dev/null; then
        run_step peer 150 bash -c 'set -e; peers' || true
    else
        summary+=("peer: left out, no GPU, no PyTorch or no --torch-engine")
    fi
    if [[ -n $data ]]; then
        run_step accuracy 100000 bash -c 'set -e; accuracies' || true
    fi
fi

echo
if [[ -s $out/test.log ]]; then
    grep -E 'tests passed|tests failed' "$out/test.log" || true
    skipped=$(grep -c '(Skipped)' "$out/test.log" || true)
    echo "$skipped entries skipped"
    if $gpu && ((skipped > 0)); then
        summary+=("test: FAILED, entries were skipped; is there a GPU?")
        failed=true
    fi
fi
printf '%s\n' "${summary[@]}"
echo
results=()
for name in bench peer accuracy; do
    if [[ -s $out/$name.log ]]; then
        results+=("$out/$name.log")
    fi
done
if ((${#results[@]} > 0)) && [[ -n $python ]]; then
    "$python" tests/gpu/table.py "${results[@]}"
fi
if $failed; then
    exit 1
fi
