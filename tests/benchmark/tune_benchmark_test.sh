#!/usr/bin/env bash
# Wrong flags are refused; and as root the benchmark compares a small tuned job with a grid, and
# leaves nothing behind. Without root the test says so.
set -euo pipefail

source "${TEST_SRCDIR}/capstan/tests/benchmark/say_not_run.sh"
benchmark="${TEST_SRCDIR}/capstan/tests/benchmark/tune_benchmark.sh"

# expect_error MESSAGE COMMAND...
expect_error() {
  local message="$1"
  shift
  if "$@" >"${TEST_TMPDIR}/output" 2>"${TEST_TMPDIR}/error"; then
    echo "expected an error: $*" && exit 1
  fi
  grep --quiet --fixed-strings -- "${message}" "${TEST_TMPDIR}/error" ||
    { echo "expected '${message}', got:" && cat "${TEST_TMPDIR}/error" && exit 1; }
}

expect_error "--gbit: expected a number above 0, got '0'" "${benchmark}" --gbit=0
expect_error "--credits: expected a whole number above 0, got 'x'" "${benchmark}" --credits=1,x
expect_error "--partitions: expected a whole number above 0, got '0'" "${benchmark}" --partitions=0
expect_error "there is no flag --fast" "${benchmark}" --fast
"${benchmark}" --help | grep --quiet -- '--tune_steps=N'

if ! { ip netns add "capstan-test-$$" && ip netns delete "capstan-test-$$"; } 2>/dev/null; then
  expect_error 'expected to be' "${benchmark}"
  say_not_run "the benchmark itself: this is not root, or may not make network namespaces"
  exit 0
fi
before="$(ip netns list)"
cat >"${TEST_TMPDIR}/net.csv" <<END
layer,tensor,elements,million_macs
0,a,16384,1
1,b,32768,1
END
"${benchmark}" --programs="${TEST_SRCDIR}/capstan" --model="${TEST_TMPDIR}/net.csv" --scale=1 --gbit=0.5 \
  --slice_bytes=16384 --partitions=16384 --credits=16384,65536 --tune_steps=2600 \
  >"${TEST_TMPDIR}/output"
cat "${TEST_TMPDIR}/output"
[[ "$(grep --only-matching '"step_s"' "${TEST_TMPDIR}/output" | wc -l)" == 4 ]]
grep --extended-regexp '"over_best": [0-9.]*[1-9]' "${TEST_TMPDIR}/output"
[[ "$(ip netns list)" == "${before}" ]] || { echo "left behind: $(ip netns list)" && exit 1; }
