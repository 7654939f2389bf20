#!/usr/bin/env bash
# What scripts count by checks.sh.
set -euo pipefail

scratch="${TEST_TMPDIR}/scratch"
mkdir "${scratch}"
# shellcheck source=deploy/checks.sh
source "${TEST_SRCDIR}/capstan/deploy/checks.sh"

# expect COUNTS TEXT COMMAND...: what the command counts and says, from zero on.
expect() {
  local wanted="$1" text="$2" output="${TEST_TMPDIR}/output" counts
  shift 2
  passed=0 failed=0 skipped=0
  "$@" >"${output}" 2>&1
  counts="${passed} ${failed} ${skipped}"
  [[ "${counts}" == "${wanted}" && "$(<"${output}")" == *"${text}"* ]] ||
    { echo "$*: expected ${wanted} and \"${text}\", got ${counts} and: $(<"${output}")" && exit 1; }
}

works() { [[ -d "${scratch}" ]]; }
fails_in_the_middle() { false && echo "not reached"; false; echo "goes on"; }
fails_in_a_loop() {
  local value
  for value in false true; do "${value}"; done
}
fails_in_a_pipe() { false | sort; }
fails_in_an_assignment() {
  local text
  text="$(false; echo "goes on")"
  echo "${text}"
}
reads_input() { ! read -r; }

expect "1 0 0" "ok      it works" check "it works" works
expect "1 0 0" "ok " check "nothing is asked" reads_input
expect "0 1 0" "FAILED  it works, " check "it works" false
expect "0 1 0" " s, exit code 3" check "it works" exit 3
for function in fails_in_the_middle fails_in_a_loop fails_in_a_pipe fails_in_an_assignment; do
  expect "0 1 0" "FAILED  it works" check "it works" "${function}"
done
expect "0 1 0" "the reason" check "it works" ls "/the reason"
expect "0 0 1" "skipped it: no root" skip "it: no root"

# expect_sum COUNTS TEXT LAST_LINE EXIT_CODE: what is counted of a program that ends with this.
expect_sum() {
  printf 'begins\n%s\n' "$3" >"${TEST_TMPDIR}/log"
  expect "$1" "$2" add_counts program "${TEST_TMPDIR}/log" "$4"
}
expect_sum "5 0 0" "" "5 passed, 0 failed" 0
expect_sum "5 2 1" "" "5 passed, 2 failed, 1 skipped" 1
expect_sum "40 1 0" "FAILED  program: exit code 139 after 40 passed" "40 passed, 0 failed" 139
expect_sum "40 1 0" "FAILED  program: exit code 1 after 40 passed" "40 passed, 0 failed" ""
expect_sum "0 1 0" "expected counts in its last line, got: Killed" "Killed" 137
expect_sum "0 1 0" "got: done" "done" 0
expect_sum "0 1 0" "got: 5 passed, 0 failed, but" "5 passed, 0 failed, but" 0

# expect_end PASSED FAILED SKIPPED LINE EXIT_CODE
expect_end() {
  local exit_code=0 line
  passed=$1 failed=$2 skipped=$3
  line="$(print_counts)" || exit_code=$?
  [[ "${line}" == "$4" && "${exit_code}" == "$5" ]] ||
    { echo "expected $4 and exit code $5, got ${line} and ${exit_code}" && exit 1; }
}
expect_end 2 0 1 "2 passed, 0 failed, 1 skipped" 0
expect_end 2 1 0 "2 passed, 1 failed, 0 skipped" 1
expect_end 0 0 0 "0 passed, 0 failed, 0 skipped" 1
