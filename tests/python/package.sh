# shellcheck shell=bash
# Sourced by tests. Makes `python` Debian's, which finds the package capstan as the wheel has it.

package="${TEST_TMPDIR}/site/capstan"
mkdir -p "${package}/bin" "${TEST_TMPDIR}/bin"
ln -s "${PWD}"/worker/python/site/capstan/* "${package}"
ln -s "${PWD}/deploy/cli/capstan" "${PWD}"/server/capstan_{coordinator,server} "${package}/bin"
ln -s /usr/bin/python3 "${TEST_TMPDIR}/bin/python"
export PATH="${TEST_TMPDIR}/bin:${PATH}" PYTHONPATH="${TEST_TMPDIR}/site"
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1  # threads of several workers would only wait
