#!/usr/bin/env bash
# The benchmark runs at a small size over each transport, beside the all-reduces, and prints what it
# promises; each program checks its own sums.
set -euo pipefail

benchmark="${TEST_SRCDIR}/capstan/tests/benchmark/bsp_step_benchmark"
for transport in grpc ucx; do
  output="$("${benchmark}" --transport="${transport}" --bytes=1000000 --slice_bytes=65536 \
    --workers=3 --servers=2 --steps=4 --repeat=2 --json)"
  echo "${output}"
  last="$(tail -n 1 <<<"${output}")"
  for key in step_ms gb_per_s server_cpu_ms memcpy_gb_per_s gloo_ms gloo_chunked_ms mpi_shm_ms mpi_tcp_ms \
    ratio_to_gloo ratio_to_mpi_shm; do
    grep --quiet --extended-regexp "\"${key}\":[0-9.e+-]*[1-9]" <<<"${last}" ||
      { echo "expected ${key} above 0" && exit 1; }
  done
done

# Ends with `expected` as the reason, given the other arguments.
expect_error() {
  local expected="$1"
  shift
  if "${benchmark}" "$@" 2>"${TEST_TMPDIR}/error"; then exit 1; fi
  grep -- "${expected}" "${TEST_TMPDIR}/error"
}
expect_error '--transport: expected grpc or ucx, got tcp' --transport=tcp
expect_error '--bytes: expected 1 to 2147483647 float32, a multiple of 4, got 6' --bytes=6
expect_error 'use --workers=2, or --nobaselines' --workers=1

if "${TEST_SRCDIR}/capstan/tests/benchmark/gloo_allreduce" --algorithm=best \
  2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep -- '--algorithm: expected ring, ring_chunked or halving_doubling, got best' \
  "${TEST_TMPDIR}/error"
