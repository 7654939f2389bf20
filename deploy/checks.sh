# shellcheck shell=bash
# Sourced by scripts that count what they try. They set `scratch`, a folder of their own, and end with
# print_counts.

shopt -s inherit_errexit
passed=0
failed=0
skipped=0

# check TEXT COMMAND...: counts one case. The output goes to ${scratch}/log. If the case fails, its end is
# shown, and before it what a test or sanitizer in it found. The command runs in a shell of its own, which
# ends at the first error in it.
check() {
  local text="$1" began=${SECONDS} exit_code
  shift
  set +e  # bash ignores errors in what is part of a condition, so this is none
  (set -e; "$@") >"${scratch}/log" 2>&1 </dev/null
  exit_code=$?
  set -e
  if ((exit_code == 0)); then
    passed=$((passed + 1))
    echo "ok      ${text}, $((SECONDS - began)) s"
  else
    failed=$((failed + 1))
    echo "FAILED  ${text}, $((SECONDS - began)) s, exit code ${exit_code}"
    grep --extended-regexp --after-context=8 ': Failure$|(WARNING|ERROR): [A-Z][A-Za-z]+Sanitizer:' \
      "${scratch}/log" | head --lines=100 | cut --characters=1-300 || true
    tail --lines=200 "${scratch}/log"
  fi
}

# skip TEXT: counts a case that this machine does not allow. The text says which and why.
skip() {
  skipped=$((skipped + 1))
  echo "skipped $1"
}

# add_counts NAME LOG EXIT_CODE: adds the cases of a program, whose last line is "N passed, N failed" or
# "N passed, N failed, N skipped". If it says less than its exit code does, that is one more failure. No
# exit code, as of a program that was killed, is one of an error.
add_counts() {
  local counts exit_code="${3:-1}" fields='^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$'
  counts="$(tail --lines=1 "$2")"
  if [[ ! "${counts}" =~ ${fields} ]]; then
    echo "FAILED  $1: expected counts in its last line, got: ${counts:0:300}"
    failed=$((failed + 1))
    return
  fi
  passed=$((passed + BASH_REMATCH[1]))
  failed=$((failed + BASH_REMATCH[2]))
  skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
  if ((exit_code != 0 && BASH_REMATCH[2] == 0)); then
    echo "FAILED  $1: exit code ${exit_code} after ${counts}"
    failed=$((failed + 1))
  fi
}

# Prints the last line. Fails if a case has failed, or if there was none.
print_counts() {
  echo "${passed} passed, ${failed} failed, ${skipped} skipped"
  ((failed == 0 && passed + skipped > 0))
}
