#!/usr/bin/env bash
# Every program prints its name and its version. All have one version.
set -euo pipefail

for program in "$@"; do
  said="$("./${program}" --version)"
  [[ "${said}" =~ ^"${program##*/}"\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "got: ${said}" && exit 1; }
  echo "${said}"
done | tee "${TEST_TMPDIR}/versions"
[[ "$(sed 's/.* //' "${TEST_TMPDIR}/versions" | sort --unique | wc -l)" == 1 ]]
