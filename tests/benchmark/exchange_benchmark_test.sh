#!/usr/bin/env bash
# The benchmark runs at a small size over each transport, and prints what it promises.
set -euo pipefail

benchmark="${TEST_SRCDIR}/capstan/tests/benchmark/exchange_benchmark"
for transport in grpc ucx; do
  output="$("${benchmark}" --transport="${transport}" --bytes=262144 --slice_bytes=65536 \
    --credit_bytes=65536 --inflight=2 --workers=2 --servers=2 --optimizer=adam --warmup=50ms \
    --duration=200ms --repeat=2 --json)"
  echo "${output}"
  last="$(tail -n 1 <<<"${output}")"
  for key in gb_per_s exchanges_per_s p50_us p99_us cpu_s_per_gb memcpy_gb_per_s tcp_gb_per_s \
    tcp_cpu_s_per_gb; do
    grep --quiet --extended-regexp "\"${key}\":[0-9.e+-]*[1-9]" <<<"${last}" ||
      { echo "expected ${key} above 0" && exit 1; }
  done
done

if "${benchmark}" --transport=tcp 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- '--transport: expected grpc or ucx, got tcp' "${TEST_TMPDIR}/error"
if "${benchmark}" --bytes=100 --slice_bytes=64 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- '--slice_bytes: expected a multiple of 4, and --bytes a multiple of it' "${TEST_TMPDIR}/error"
if "${benchmark}" --owner_threads=-1 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- '--owner_threads: expected 0 or more' "${TEST_TMPDIR}/error"
if "${benchmark}" --optimizer=best --warmup=1ms --duration=1ms 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- '--optimizer: expected sgd, momentum, adam, ... , got best' "${TEST_TMPDIR}/error"
