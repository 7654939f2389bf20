#!/usr/bin/env bash
# The benchmark has a line for each contender, and the Python layer has a cost. As root there are
# links, too; without root, the report says so.
set -euo pipefail

# shellcheck source=tests/python/package.sh
source tests/python/package.sh
# shellcheck source=tests/benchmark/schedule/network_test.sh
source "${TEST_SRCDIR}/capstan/tests/benchmark/schedule/network_test.sh"
benchmark="${PWD}/tests/benchmark/step/torch_step.py"
small=(--width=64 --layers=2 --rounds=1 --steps=2 --json)

# expect_lines CONTENDER...: each has a step in the output.
expect_lines() {
  local contender
  for contender in "$@"; do
    grep --quiet --extended-regexp "\"contender\": \"${contender}\", \"step_s\": 0\.[0-9]" \
      "${TEST_TMPDIR}/output" || { echo "expected a line of ${contender}" && exit 1; }
  done
}

python "${benchmark}" "${small[@]}" --samples=4 | tee "${TEST_TMPDIR}/output"
expect_lines ddp capstan_grpc capstan_ucx
python "${benchmark}" --layer_cost --steps=30 | tee "${TEST_TMPDIR}/output"
grep --quiet --extended-regexp '^[0-9]+\.[0-9] us for each parameter and step$' \
  "${TEST_TMPDIR}/output"
expect_error '--wait: expected --gbit, too' python "${benchmark}" --wait
expect_error '--ratio: expected --gbit, too' python "${benchmark}" --ratio=4

on_links() { python "${benchmark}" "${small[@]}" --gbit=1 --ratio=1 --wait; }
end_without_namespaces on_links
before="$(ip netns list)"
on_links | tee "${TEST_TMPDIR}/output"
expect_lines ddp capstan_grpc capstan_grpc_int8_bfloat16
[[ "$(ip netns list)" == "${before}" ]]
