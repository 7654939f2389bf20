#!/usr/bin/env bash
# A model that Capstan has written, read by the safetensors library of PyPI.
set -euo pipefail

root="${TEST_SRCDIR}/capstan"
cd "${TEST_TMPDIR}"
/usr/bin/python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check safetensors==0.8.0 xxhash==3.5.0
"${root}/deploy/cli/capstan" run --steps=20 --output=model.safetensors --run_dir=run
venv/bin/python "${root}/tests/integration/safetensors_reader.py" model.safetensors run/summary.json
