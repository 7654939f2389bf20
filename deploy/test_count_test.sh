#!/usr/bin/env bash
# The counts of test.sh and of .ci/run. A program in place of Bazel gives the answers.
set -euo pipefail

repository="${TEST_TMPDIR}/repository"
mkdir -p "${repository}"/deploy/{docker,kubernetes,slurm} "${repository}"/{.ci,tests/package} \
  "${TEST_TMPDIR}/tools"
cp "${TEST_SRCDIR}"/capstan/deploy/{checks,test}.sh "${repository}/deploy"
cp "${TEST_SRCDIR}/capstan/.ci/run" "${repository}/.ci"

# script FILE TEXT
script() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
script "${repository}/deploy/setup.sh" 'true'
script "${repository}/tests/package/new_debian.sh" 'echo "a Debian that nobody needs"; exit 1'
script "${TEST_TMPDIR}/tools/bazel" '
  for argument in "$@"; do
    [[ "${argument}" != --build_event_json_file=* ]] || cp "'"${TEST_TMPDIR}"'/events" "${argument#*=}"
  done
  [[ "$1" == test ]] || cat "'"${TEST_TMPDIR}"'/labels"'

# target NAME STATUS CASES: a test of four kinds of cases, by the given words.
target() {
  local folder="${TEST_TMPDIR}/$1" case
  mkdir "${folder}"
  for case in $3; do
    if [[ "${case}" == disabled ]]; then
      echo '  <testcase name="a" status="notrun" result="suppressed" classname="Suite" />'
      continue
    fi
    echo '  <testcase name="a" status="run" classname="Suite">'
    [[ "${case}" == passed ]] || echo "    <${case} message=\"why\"></${case}>"
    echo '  </testcase>'
  done >"${folder}/test.xml"
  echo "//:$1" >>"${TEST_TMPDIR}/labels"
  echo "{\"id\":{\"testSummary\":{\"label\":\"//:$1\"}},\"overallStatus\":\"$2\",\"uri\":\"file://${folder}/test.log\"}" \
    >>"${TEST_TMPDIR}/events"
}

# run_on_fakes PROGRAM: its output is in `output`.
output="${TEST_TMPDIR}/output"
run_on_fakes() { PATH="${TEST_TMPDIR}/tools:${PATH}" "${repository}/$1" >"${output}" 2>&1; }

# expect PROGRAM COUNTS: the last line of its output. The exit code is 0 if it says that none failed.
expect() {
  local exit_code=0 wanted=0
  run_on_fakes "$1" || exit_code=$?
  [[ "$2" == *" 0 failed"* ]] || wanted=1
  [[ "$(tail -n 1 "${output}")" == "$2" && "${exit_code}" == "${wanted}" ]] ||
    { echo "expected $2 and ${wanted}, got ${exit_code} and:" && cat "${output}" && exit 1; }
}
expect_line() {
  grep --quiet --extended-regexp -e "$1" "${output}" ||
    { echo "expected a line $1 in:" && cat "${output}" && exit 1; }
}

# prints PART LAST_LINE EXIT_CODE: a part of .ci/run. The parts checks and sanitizers are both of
# presubmit.sh: the part checks gives it --without.
prints() {
  local program="${repository}/deploy/$1"
  if [[ -d "${program}" ]]; then program+=/test; fi
  if [[ "$1" == checks || "$1" == sanitizers ]]; then program="${TEST_TMPDIR}/$1"; fi
  script "${program}.sh" "echo '$2'; exit $3"
}
script "${repository}/deploy/presubmit.sh" '
  if [[ "$1" == --without ]]; then part=checks; else part=sanitizers; fi
  exec "'"${TEST_TMPDIR}"'/${part}.sh"'
parts=(torch_test simulation_test checks sanitizers slurm docker kubernetes)

# Without the cases of the other parts, .ci/run counts those of test.sh.
for part in "${parts[@]}"; do prints "${part}" "0 passed, 0 failed" 0; done
target plain PASSED "passed passed"
expect deploy/test.sh "2 passed, 0 failed, 0 skipped"
expect .ci/run "2 passed, 0 failed, 0 skipped"

# A test that reports nothing counts by Bazel's verdict.
target silent PASSED ""
expect deploy/test.sh "3 passed, 0 failed, 0 skipped"

# Cases of others are added. An exit code is believed more than counts are.
for part in "${parts[@]}"; do
  prints "${part}" "5 passed, 2 failed" 1
  expect .ci/run "8 passed, 2 failed, 0 skipped"
  prints "${part}" "5 passed, 0 failed" 139
  expect .ci/run "8 passed, 1 failed, 0 skipped"
  expect_line "^FAILED  [a-z]+: exit code 139 after 5 passed"
  prints "${part}" "broken" 0
  expect .ci/run "3 passed, 1 failed, 0 skipped"
  prints "${part}" "0 passed, 0 failed" 0
done
expect_line '^slurm 0\.[0-9] min$'

# A case that continuous integration does not expect to be skipped is one that failed.
prints checks 'skipped cuda_build: there is no CUDA toolkit here
1 passed, 0 failed, 1 skipped' 0
expect .ci/run "4 passed, 0 failed, 1 skipped"
prints checks 'skipped asan_tests: there is no clang here
1 passed, 0 failed, 1 skipped' 0
expect .ci/run "4 passed, 1 failed, 1 skipped"
expect_line '^FAILED  checks skipped asan_tests: there is no clang here$'
prints checks "1 passed, 0 failed, 1 skipped" 0
expect .ci/run "4 passed, 1 failed, 1 skipped"
prints checks "0 passed, 0 failed" 0
target without_root PASSED "skipped skipped"
expect deploy/test.sh "3 passed, 0 failed, 2 skipped"
expect_line '^skipped //:without_root Suite.a: why$'
expect .ci/run "3 passed, 2 failed, 2 skipped"
expect_line '^FAILED  tests skipped //:without_root Suite.a: why$'
target disabled PASSED "passed disabled"
expect deploy/test.sh "4 passed, 0 failed, 3 skipped"
expect .ci/run "4 passed, 3 failed, 3 skipped"
target broken FAILED "passed failure skipped"
expect deploy/test.sh "5 passed, 1 failed, 4 skipped"
expect_line '^FAILED  //:broken Suite.a: why$'
expect .ci/run "5 passed, 5 failed, 4 skipped"

# Bazel may build or run less than it was asked to.
echo //:absent >>"${TEST_TMPDIR}/labels"
expect deploy/test.sh "5 passed, 2 failed, 4 skipped"
expect_line '^FAILED  //:absent was not run$'
rm "${TEST_TMPDIR}"/{labels,events}
touch "${TEST_TMPDIR}"/{labels,events}
if run_on_fakes deploy/test.sh; then echo "expected that no test is a failure" && exit 1; fi
