#!/usr/bin/env bash
# Installs what is missing, configures, builds and runs the tests. The exit code is ctest's.
#
#   tests/run.sh [--preset NAME] [--label LABEL] [CTEST-OPTION...]
#
#   --preset NAME    ci (default), dev, debug, asan, tsan or gpu
#   --label LABEL    only tests with that label, e.g. fast; long: those that nothing else runs
#   CTEST-OPTION     handed to ctest, e.g. -R core_rng or --repeat until-fail:10
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=ci
label=
ctest_options=()
while (($# > 0)); do
    case "$1" in
        --preset | --label)
            if (($# < 2)); then
                echo "run.sh: $1 needs a value" >&2
                exit 2
            fi
            if [[ $1 == --preset ]]; then
                preset=$2
            else
                label=$2
            fi
            shift 2
            ;;
        -h | --help)
            sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *)
            ctest_options+=("$1")
            shift
            ;;
    esac
done

if [[ -n $label ]]; then
    ctest_options+=(-L "^$label\$")
fi
if [[ $label != long ]]; then
    ctest_options+=(-LE '^long$')
fi

cores=$(nproc)
build=build/$preset

jobs/install_deps.sh --dev
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 # another clone finds what this one compiled
fi
cmake --preset "$preset" "${launcher[@]}"
cmake --build "$build" --parallel "$cores"

status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$cores" \
    "${ctest_options[@]}" 2>&1 | tee "$build/tests.log" || status=${PIPESTATUS[0]}
grep 'tests passed' "$build/tests.log" || true
exit "$status"
