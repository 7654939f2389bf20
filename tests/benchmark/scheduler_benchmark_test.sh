#!/usr/bin/env bash
# The benchmark runs briefly, and prints what a slice costs.
set -euo pipefail

benchmark="${TEST_SRCDIR}/capstan/tests/benchmark/scheduler_benchmark"
output="$("${benchmark}" --slices=100 --min_time=10ms)"
echo "${output}"
for policy in slice_fifo priority; do
  grep --quiet --extended-regexp "^${policy}/100/.* us_per_slice=[0-9.]*[1-9]" <<<"${output}" ||
    { echo "expected us_per_slice of ${policy} above 0" && exit 1; }
done

if "${benchmark}" --slices=0 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- 'expected --slices and --layers of 1 or more' "${TEST_TMPDIR}/error"
