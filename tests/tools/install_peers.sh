#!/usr/bin/env bash
# Makes build/peers, a Python environment with the packages of PyPI that tests compare with. Does
# nothing when it is there. Without it those tests say that they are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

peers=build/peers
if [[ -e $peers/complete ]]; then
    exit 0
fi
rm -rf "$peers"
python3 -m venv "$peers"
"$peers/bin/pip" install --quiet --disable-pip-version-check torch onnx onnxruntime numpy h5py \
    tensorboard
touch "$peers/complete"
