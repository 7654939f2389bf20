# shellcheck shell=bash disable=SC2154
# Part of tests/gpu_suite.sh: the stage of the bundle's unit tests.

tests_at_once=4

# Runs the test $1 in the folder with its data.
run_test() {
  local name="${1##*/}" exit_code=0
  [[ ! -d "$1.runfiles/capstan" ]] || cd "$1.runfiles/capstan" || return
  limited 60 "test-${name}.log" "$1" || exit_code=$?
  echo "${exit_code}" >"${scratch}/${name}.exit"
}

# Prints the number of test cases with the result $1 (OK, FAILED, SKIPPED) in the log $2.
cases() { grep -cE "^\[ +$1 +\] .* \([0-9]+ ms\)$" "${out}/$2" || true; }

# The failed expectations in the log $1, or the end of a crash.
show_failures() {
  grep -E -A 12 -m 3 'Failure$' "${out}/$1" || tail -n 8 "${out}/$1"
}

stage_tests() {
  local test name log exit_code result=ok count=0 passed=0 skipped=0 bad=0 failures bad_cases=0
  for test in "${bundle}"/tests/*_test; do
    run_test "${test}" &
    ((++count % tests_at_once)) || wait
  done
  wait
  for test in "${bundle}"/tests/*_test; do
    name="${test##*/}"
    log="test-${name}.log"
    exit_code="$(<"${scratch}/${name}.exit")"
    passed=$((passed + $(cases OK "${log}")))
    skipped=$((skipped + $(cases SKIPPED "${log}")))
    ((exit_code != 0)) || continue
    if ((exit_code == 124 || exit_code == 137)); then
      failure_row "${name}" "${exit_code}" ""
      continue
    fi
    bad=$((bad + 1))
    show_failures "${log}"
    failures="$(cases FAILED "${log}")"
    # A crash counts as one failed case.
    bad_cases=$((bad_cases + (failures > 0 ? failures : 1)))
    row FAILED "${name}" "${failures} cases failed, exit code ${exit_code}"
  done
  ((bad == 0 && passed > 0)) || result=FAILED
  row "${result}" "${count} test programs" \
    "${passed} cases passed, ${bad_cases} failed, ${skipped} skipped; ${bad} programs failed"
}
