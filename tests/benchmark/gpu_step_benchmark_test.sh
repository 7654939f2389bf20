#!/usr/bin/env bash
# The benchmark runs at a small size, here on the emulator, and prints what it promises.
set -euo pipefail

benchmark="${TEST_SRCDIR}/capstan/tests/benchmark/gpu_step_benchmark"
output="$("${benchmark}" --widths=16,32,8 --batch=8 --runs=3 --json 2>/dev/null)"
echo "${output}"

expect() { grep --quiet --extended-regexp "$1" <<<"${output}" || { echo "expected: $1" && exit 1; }; }
expect '^MLP 16-32-8, batch 8, medians of 3$'
expect '^compute +forward fc1 '
expect '^compute +backward fc2 '
expect '^copy out +gradient fc1 '
expect '^exchange +push\+pull fc2 '
for key in float32_ms tf32_ms bfloat16_ms exchange_ms training_ms; do
  expect "^\{.*\"${key}\":[0-9.]*[1-9]"
done
expect '"hidden_share":-?[0-9]'

output="$("${benchmark}" --widths=16,8 --batch=8 --runs=3 --communication=false --json 2>/dev/null)"
expect '"bfloat16_ms":[0-9.]*[1-9][0-9]*\}$'

if "${benchmark}" --widths=16,none 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep 'expected whole numbers above 0, got "none"' "${TEST_TMPDIR}/error"
