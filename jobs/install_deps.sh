#!/usr/bin/env bash
# Installs the Debian packages that Cohort is built, run and tested with. Installs only what is
# missing and does nothing, without any privilege, when nothing is.
#
#   jobs/install_deps.sh [--dry-run]     --dry-run: only print what is missing
set -euo pipefail

packages=(
    # build
    cmake g++ ninja-build git
    # libraries
    openmpi-bin libopenmpi-dev libhdf5-openmpi-dev libdnnl-dev zlib1g-dev
    libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
    # data of the quick start
    dataset-fashion-mnist
    # tests and checks
    libgtest-dev libgmock-dev libbenchmark-dev python3 python3-h5py python3-numpy
    clang-format clang-tidy shellcheck
)

is_installed() {
    [[ "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]]
}

case "${1:-}" in
    "") dry_run=no ;;
    --dry-run) dry_run=yes ;;
    *)
        echo "usage: $0 [--dry-run]" >&2
        exit 2
        ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "install_deps: this is not a Debian system; install by other means: ${packages[*]}" >&2
    exit 1
fi

missing=()
for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
    echo "install_deps: all ${#packages[@]} packages are there"
    exit 0
fi
echo "install_deps: missing: ${missing[*]}"
if [[ $dry_run == yes ]]; then
    exit 0
fi

as_root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        echo "install_deps: cannot install: neither root nor sudo. Ask an administrator for:" >&2
        echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

# Another package operation may hold the lock; wait for it instead of failing.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 --quiet)
"${apt[@]}" update
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}"
echo "install_deps: installed ${#missing[@]} packages"
