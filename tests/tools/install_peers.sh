#!/usr/bin/env bash
# Makes build/peers, a Python environment with the packages of PyPI that tests compare with, or that build the wheel.
# Does nothing when it is there. Without it those tests say that they are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

peers=build/peers
packages=(torch onnx onnxscript onnxruntime numpy h5py 'scikit-build-core>=0.10' 'pybind11>=2.12'
    tensorboard)
if [[ -e $peers/complete && $(<"$peers/complete") == "${packages[*]}" ]]; then
    exit 0
fi
python3 -m venv "$peers"
"$peers/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
echo "${packages[*]}" >"$peers/complete"
