#!/usr/bin/env bash
# Wrong flags are refused. As root, the benchmark also compares a small job with a grid, and leaves
# nothing behind. Without root, the report says so.
set -euo pipefail

source "${TEST_SRCDIR}/capstan/tests/benchmark/schedule/network_test.sh"
# Users call the link in this folder.
benchmark="${TEST_SRCDIR}/capstan/tests/benchmark/defaults_benchmark.sh"

expect_error "--gbit: expected a number above 0, got '0'" "${benchmark}" --gbit=0
expect_error "--credits: expected a whole number above 0, got 'x'" "${benchmark}" --credits=1,x
expect_error "--slices: expected a whole number above 0, got '0'" "${benchmark}" --slices=0
expect_error "there is no flag --fast" "${benchmark}" --fast
[[ "$("${benchmark}" --help)" == *--slices=N* ]]

end_without_namespaces "${benchmark}"
before="$(left_namespaces)"
cat >"${TEST_TMPDIR}/net.csv" <<END
layer,tensor,elements,million_macs
0,a,16384,1
1,b,32768,1
END
"${benchmark}" --programs="${TEST_SRCDIR}/capstan" --model="${TEST_TMPDIR}/net.csv" --scale=1 --gbit=0.5 \
  --slices=16384 --credits=16384,65536 --steps=5 >"${TEST_TMPDIR}/output"
cat "${TEST_TMPDIR}/output"
[[ "$(grep --only-matching '"step_s"' "${TEST_TMPDIR}/output" | wc -l)" == 3 ]]
grep --extended-regexp '"chosen_s": [0-9.]*[1-9][0-9]*, "over_best": [0-9.]*[1-9]' "${TEST_TMPDIR}/output"
expect_nothing_left "${before}"
