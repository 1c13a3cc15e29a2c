#!/usr/bin/env bash
# Installs the Debian packages that Cohort is built and run with (Debian 12 and 13). Installs only
# what is missing and does nothing, without any privilege, when nothing is.
#
#   jobs/install_deps.sh [--dev] [--dry-run]
#
#   --dev      also what its tests and checks need
#   --dry-run  only print what is missing
set -euo pipefail

packages=(
    # build
    cmake g++ ninja-build git
    # libraries
    openmpi-bin libopenmpi-dev libhdf5-openmpi-dev libdnnl-dev zlib1g-dev libzip-dev libpng-dev libjpeg62-turbo-dev
    libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libsimdjson-dev libspdlog-dev libfmt-dev libutf8proc-dev
    libprotobuf-dev protobuf-compiler
    # tables and data of the quick start
    python3 dataset-fashion-mnist bible-kjv
)
dev_packages=(
    libgtest-dev libgmock-dev libbenchmark-dev python3-h5py python3-numpy python3-markdown-it
    pybind11-dev python3-dev
    slurm-wlm munge iproute2
)
# Nice to have: without them builds repeat work and some checks do less, which they say.
dev_extras=(ccache shellcheck lintian)
# shellcheck source=/dev/null
if [[ $(. /etc/os-release && echo "${VERSION_ID:-}") == 12 ]]; then
    dev_extras+=(clang-format-14 clang-tidy-16) # other versions judge otherwise
fi

say() { echo "install_deps: $*"; }

is_installed() {
    [[ "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]]
}

# Prints those of the given packages that are not installed.
missing_of() {
    local package
    for package in "$@"; do
        is_installed "$package" || echo "$package"
    done
}

# Installs the given packages; another package operation that holds the lock is waited for.
install_packages() {
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
        apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 --quiet)
    "${apt[@]}" update && "${apt[@]}" install --yes --no-install-recommends "$@"
}

dry_run=no
extras=()
for option; do
    case $option in
        --dev)
            packages+=("${dev_packages[@]}")
            extras=("${dev_extras[@]}")
            ;;
        --dry-run) dry_run=yes ;;
        *)
            echo "usage: $0 [--dev] [--dry-run]" >&2
            exit 2
            ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is not a Debian system; install by other means: ${packages[*]}" >&2
    exit 1
fi

mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t missing_extras < <(missing_of "${extras[@]}")
if ((${#missing[@]} + ${#missing_extras[@]} == 0)); then
    say "all packages are there"
    exit 0
fi
say "missing: ${missing[*]:-nothing needed}; extras: ${missing_extras[*]:-none}"
if [[ $dry_run == yes ]]; then
    exit 0
fi

as_root=()
if ((EUID != 0)); then
    as_root=(sudo)
fi
if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    if ((${#missing[@]} == 0)); then
        say "going on without the extras: neither root nor sudo to install them"
        exit 0
    fi
    say "cannot install: neither root nor sudo. Ask an administrator for:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
if install_packages "${missing[@]}" "${missing_extras[@]}"; then
    say "installed ${missing[*]} ${missing_extras[*]}"
elif ((${#missing[@]} == 0)); then
    say "going on without the extras: they could not be installed" >&2
else
    say "trying again without the extras" >&2
    install_packages "${missing[@]}"
fi
