#!/usr/bin/env bash
# A small study of accuracy prints a line for each codec, and fails if one is below the bound.
set -euo pipefail

cd "${TEST_SRCDIR}/capstan"
study=(tests/benchmark/codec/codec_accuracy.py --program=deploy/cli/capstan --jobs=digits --seeds=1)
output="$("${study[@]}" --codecs=int8_bfloat16 --bound=5)"
echo "${output}"
accurate='9[0-9]\.[0-9]+ % \([-+][0-9.]+\), seeds [0-9.]+$'
[[ "$(grep --count --extended-regexp "^digits, .*: ${accurate}" <<<"${output}")" == 2 ]] ||
  { echo "expected 2 lines with an accuracy above 90 %" && exit 1; }

# dgc needs more steps.
"${study[@]}" --codecs=dgc --digits_epochs=60 --bound=5 | tee "${TEST_TMPDIR}/output"
grep --extended-regexp "^digits, dgc, topk:0.001 both ways: ${accurate}" "${TEST_TMPDIR}/output"

# float32 itself is 0 points from float32.
if "${study[@]}" --codecs=float32 --digits_epochs=1 --bound=-0.01 >/dev/null; then
  echo "expected a bound that nobody reaches to fail" && exit 1
fi

if "${study[@]}" --codecs=int7 2>"${TEST_TMPDIR}/error"; then
  echo "expected an error: int7 is no setting" && exit 1
fi
grep "expected some of float32, .*, dgc, got 'int7'" "${TEST_TMPDIR}/error"
