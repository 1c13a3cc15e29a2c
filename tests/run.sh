#!/usr/bin/env bash
# Installs what is missing, configures, builds and runs tests. The exit code is ctest's; 2: wrong options.
#
#   tests/run.sh                  ten minutes on two cores: builds the program, as jobs/quickstart.sh does, trains
#                                 on Fashion-MNIST while workers are killed, compares layers with their
#                                 double-precision twins (tests/smoke.cmake has the list)
#   tests/run.sh --all            an hour and more: all tests but the long ones, as CI runs them
#   tests/run.sh [--preset NAME] [--label LABEL] [CTEST-OPTION...]    of all tests these
#
#   --preset NAME    ci (default), dev, debug, asan, tsan or gpu
#   --label LABEL    only tests with that label, e.g. fast; long: those that nothing else runs
#   CTEST-OPTION     handed to ctest, e.g. -R core_rng or --repeat until-fail:10
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wrong() {
    echo "run.sh: $1 (tests/run.sh --help lists the options)" >&2
    exit 2
}

preset=ci
label=
targets=()
configure=()
ctest_options=()
if (($# == 0)); then
    preset=release
    label=smoke
    targets=(--target smoke_tests)
    configure=(-DCOHORT_BUILD_TESTS=ON)
fi
while (($# > 0)); do
    case "$1" in
        --all) ;;
        --preset | --label)
            (($# > 1)) || wrong "$1 needs a value"
            if [[ $1 == --preset ]]; then
                preset=$2
            else
                label=$2
            fi
            shift
            ;;
        -h | --help)
            sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *) ctest_options+=("$1") ;;
    esac
    shift
done
grep -q "\"name\": \"$preset\"" CMakePresets.json || wrong "there is no preset '$preset'"

jobs/install_deps.sh --dev
# What ctest does not know it passes over in silence.
options=$(ctest --help | sed -nE 's/ += .*//; s/^  (-.*)/ \1,/p' | tr ',<[=' '    ')
for option in "${ctest_options[@]}"; do
    if [[ $option == -* && $options != *" ${option%%=*} "* && $options != *" ${option%%[0-9]*} "* ]]; then
        wrong "neither this script nor ctest has the option '$option'"
    fi
done
[[ -z ${ctest_options[0]-} || ${ctest_options[0]} == -* ]] || wrong "'${ctest_options[0]}' is no option"

cores=$(nproc)
build=build/$preset
if command -v ccache >/dev/null; then
    # A build goes on as it began: another launcher would compile everything anew.
    [[ -e $build/CMakeCache.txt ]] || configure+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 # another clone finds what this one compiled
fi
cmake --preset "$preset" "${configure[@]}"
if [[ -n $label ]]; then
    labels=$(ctest --test-dir "$build" --print-labels)
    grep -qx "  $label" <<<"$labels" || wrong "no test has the label '$label'"
    ctest_options+=(-L "^$label\$")
fi
if [[ $label != long ]]; then
    ctest_options+=(-LE '^long$')
fi
cmake --build "$build" --parallel "$cores" "${targets[@]}"

status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$cores" \
    "${ctest_options[@]}" 2>&1 | tee "$build/tests.log" || status=${PIPESTATUS[0]}
grep 'tests passed' "$build/tests.log" || true
exit "$status"
