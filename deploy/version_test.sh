#!/usr/bin/env bash
# Every program says its name and its version, the same for all.
set -euo pipefail

for program in "$@"; do
  said="$("./${program}" --version)"
  [[ "${said}" =~ ^"${program##*/}"\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "got: ${said}" && exit 1; }
  echo "${said}"
done | tee "${TEST_TMPDIR}/versions"
[[ "$(sed 's/.* //' "${TEST_TMPDIR}/versions" | sort --unique | wc -l)" == 1 ]]
