#!/usr/bin/env bash
# Runs test modules of this folder with Debian's Python.
# Usage: python_test.sh MODULE...
set -euo pipefail

# shellcheck source=tests/python/package.sh
source tests/python/package.sh
export PYTHONPATH="${PYTHONPATH}:${PWD}/tests/python"
exec python -P tests/python/run_tests.py "$@"
