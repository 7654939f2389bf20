#!/usr/bin/env bash
# The benchmark runs briefly, and prints what it promises for every optimizer.
set -euo pipefail

benchmark="${TEST_SRCDIR}/capstan/tests/benchmark/server_benchmark"
output="$("${benchmark}" --min_time=1ms --slice_bytes=65536 --slices=2 --large_bytes=131072 \
  --workers=3 --json)"
echo "${output}"
last="$(tail -n 1 <<<"${output}")"
number='[0-9.e+-]*[1-9][0-9.e+-]*'
for optimizer in sgd momentum nesterov adagrad adam adamw; do
  for name in apply/%/slice apply/%/large exchange/% accumulate/% lookup/% lock/%/alone \
    lock/%/shards lock/%/shard; do
    case="${name/\%/${optimizer}}"
    for key in us per_s gb_per_s memcpy_gb_per_s of_memcpy; do
      grep --quiet --extended-regexp "\"${case}\":\{[^}]*\"${key}\":${number}" <<<"${last}" ||
        { echo "expected ${key} of ${case} above 0" && exit 1; }
    done
  done
done

if "${benchmark}" --filter=none 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- '--filter: nothing has such a name' "${TEST_TMPDIR}/error"
if "${benchmark}" --large_bytes=3 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- '--large_bytes: expected whole float32, a multiple of 4, got 3' "${TEST_TMPDIR}/error"
