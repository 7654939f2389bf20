#!/usr/bin/env bash
# A small study of accuracy prints a line for each codec, and fails if one is below the bound.
set -euo pipefail

cd "${TEST_SRCDIR}/capstan"
study=(tests/benchmark/codec/codec_accuracy.py --program=deploy/cli/capstan --jobs=digits --seeds=1)
output="$("${study[@]}" --bound=5)"
echo "${output}"
[[ "$(grep --count --extended-regexp '^digits, .*: 9[0-9]\.[0-9]+ % \([-+][0-9.]+\), seeds [0-9.]+$' \
  <<<"${output}")" == 3 ]] || { echo "expected 3 lines with an accuracy above 90 %" && exit 1; }

# float32 itself is 0 points from float32.
if "${study[@]}" --bound=-0.01 >/dev/null; then
  echo "expected a bound that nobody reaches to fail" && exit 1
fi
