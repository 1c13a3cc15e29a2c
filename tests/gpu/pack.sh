#!/usr/bin/env bash
# Packs what the engine builds with, from this machine's Debian packages, for a machine that has
# none of them: tests/gpu/run.sh --deps takes the archive.
#
#   tests/gpu/pack.sh ARCHIVE.tar.xz
#
# fmt, spdlog, GoogleTest and oneDNN with its library: about 7 MiB. The compiler's own libraries and
# the CUDA toolkit with cuDNN are the other machine's.
set -euo pipefail

if (($# != 1)) || [[ $1 == -* ]]; then
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
fi
archive=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages=(libfmt-dev libfmt9 libspdlog-dev libspdlog1.10 libgtest-dev libgmock-dev libdnnl-dev libdnnl2
    ocl-icd-libopencl1)
for package in "${packages[@]}"; do
    if ! dpkg -s "$package" >/dev/null 2>&1; then
        echo "pack.sh: $package is not installed; run jobs/install_deps.sh --dev" >&2
        exit 3
    fi
    dpkg -L "$package" | while read -r path; do
        case $path in
            /usr/include/* | /usr/lib/*)
                if [[ ! -d $path || -L $path ]]; then
                    install -d "$folder/${path%/*}"
                    cp -d "$path" "$folder/$path"
                fi
                ;;
        esac
    done
done
tar -C "$folder/usr" -cJf "$archive" .
echo "$archive: $(du -h "$archive" | cut -f1)"
