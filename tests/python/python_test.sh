#!/usr/bin/env bash
# Runs test modules with Debian's Python, and with the package as the wheel lays it out.
# Usage: python_test.sh MODULE...
set -euo pipefail

package="${TEST_TMPDIR}/site/capstan"
mkdir -p "${package}/lib" "${package}/bin"
ln -s "${PWD}"/worker/python/capstan/* "${package}"
ln -s "${PWD}/worker/client_api/libcapstan.so" "${package}/lib"
ln -s "${PWD}/deploy/cli/capstan" "${PWD}"/server/capstan_{coordinator,server} "${package}/bin"

# The examples call `python`.
mkdir "${TEST_TMPDIR}/bin"
ln -s /usr/bin/python3 "${TEST_TMPDIR}/bin/python"
export PATH="${TEST_TMPDIR}/bin:${PATH}" PYTHONPATH="${TEST_TMPDIR}/site:${PWD}/tests/python"
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 -P tests/python/run_tests.py "$@"
