#!/usr/bin/env bash
# The counts of test.sh and of .ci/run. A program in place of Bazel gives the answers.
set -euo pipefail

repository="${TEST_TMPDIR}/repository"
mkdir -p "${repository}"/deploy/{docker,kubernetes,slurm} "${repository}/.ci" "${TEST_TMPDIR}/tools"
cp "${TEST_SRCDIR}/capstan/deploy/test.sh" "${repository}/deploy"
cp "${TEST_SRCDIR}/capstan/.ci/run" "${repository}/.ci"

# script FILE TEXT
script() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
script "${repository}/deploy/setup.sh" 'true'
script "${repository}/deploy/presubmit.sh" 'echo "format ok 1 s"'
script "${TEST_TMPDIR}/tools/bazel" '
  for argument in "$@"; do
    [[ "${argument}" != --build_event_json_file=* ]] || cp "'"${TEST_TMPDIR}"'/events" "${argument#*=}"
  done
  [[ "$1" == test ]] || cat "'"${TEST_TMPDIR}"'/labels"'

# target NAME STATUS CASES: a test of three kinds of cases, by the given words.
target() {
  local folder="${TEST_TMPDIR}/$1" case
  mkdir "${folder}"
  for case in $3; do
    echo '  <testcase name="a">'
    [[ "${case}" == passed ]] || echo "    <${case} message=\"m\"></${case}>"
    echo '  </testcase>'
  done >"${folder}/test.xml"
  echo "//:$1" >>"${TEST_TMPDIR}/labels"
  echo "{\"id\":{\"testSummary\":{\"label\":\"//:$1\"}},\"overallStatus\":\"$2\",\"uri\":\"file://${folder}/test.log\"}" \
    >>"${TEST_TMPDIR}/events"
}

# expect PROGRAM LINE: the last line of its output.
expect() {
  PATH="${TEST_TMPDIR}/tools:${PATH}" "${repository}/$1" >"${TEST_TMPDIR}/output" || true
  [[ "$(tail -n 1 "${TEST_TMPDIR}/output")" == "$2" ]] || { cat "${TEST_TMPDIR}/output" && exit 1; }
}

# Without the cases of the other parts, .ci/run counts those of test.sh.
script "${repository}/deploy/torch_test.sh" 'echo "0 passed, 0 failed"'
script "${repository}/deploy/simulation_test.sh" 'echo "0 passed, 0 failed"'
prints() { script "${repository}/deploy/$1/test.sh" "echo '$2'; exit $3"; }
for part in slurm docker kubernetes; do prints "${part}" "0 passed, 0 failed" 0; done

target plain PASSED "passed passed"
expect deploy/test.sh "2 passed, 0 failed, 0 skipped"
expect .ci/run "2 passed, 0 failed, 0 skipped"
target without_root PASSED "passed skipped"
expect deploy/test.sh "3 passed, 0 failed, 1 skipped"
expect .ci/run "3 passed, 0 failed, 1 skipped"
target broken FAILED "passed failure skipped"
expect deploy/test.sh "4 passed, 1 failed, 2 skipped"
expect .ci/run "4 passed, 1 failed, 2 skipped"

# Cases of others are added. Without a count, or with an exit code alone, it is one that failed.
prints slurm "5 passed, 2 failed" 1
expect .ci/run "9 passed, 3 failed, 2 skipped"
grep --quiet '^slurm 0.0 min$' "${TEST_TMPDIR}/output"
prints slurm "5 passed, 0 failed" 1
expect .ci/run "9 passed, 2 failed, 2 skipped"
prints slurm "broken" 1
expect .ci/run "4 passed, 2 failed, 2 skipped"
prints slurm "0 passed, 0 failed" 0
prints docker "3 passed, 1 failed" 1
expect .ci/run "7 passed, 2 failed, 2 skipped"
prints kubernetes "6 passed, 0 failed, 1 skipped" 0
expect .ci/run "13 passed, 2 failed, 3 skipped"
script "${repository}/deploy/torch_test.sh" 'echo "4 passed, 1 failed"; exit 1'
expect .ci/run "17 passed, 3 failed, 3 skipped"
