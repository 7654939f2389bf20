#!/usr/bin/env bash
# What the checks of presubmit.sh refuse, in a repository of a few files. Programs in place of Bazel, nvcc
# and clang-format end as they are told.
set -euo pipefail

repository="${TEST_TMPDIR}/repository"
tools="${TEST_TMPDIR}/tools"
output="${TEST_TMPDIR}/output"
export HOME="${TEST_TMPDIR}" CUDA_HOME="${TEST_TMPDIR}/cuda" PATH="${tools}:${PATH}"
mkdir -p "${repository}"/{deploy,common/base,common/tensor,tests/integration} "${tools}" "${CUDA_HOME}/bin"
cp "${TEST_SRCDIR}"/capstan/deploy/{checks,presubmit}.sh "${repository}/deploy"

# tool PATH TEXT
tool() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
# Bazel fails if its arguments match a regular expression in this file.
echo none >"${TEST_TMPDIR}/broken"
tool "${tools}/bazel" "if [[ \"\$*\" =~ \$(<'${TEST_TMPDIR}/broken') ]]; then exit 1; fi
  if [[ \"\$*\" == *--output=graph* ]]; then echo '  \"//a:a\" -> \"//b:b\"'; fi
  if [[ \"\$*\" == *'tests(rdeps('* ]]; then echo //a:a_test; fi"
tool "${tools}/clang-format" 'true'

# file PATH TEXT
file() { printf '%s\n' "$2" >"${repository}/$1"; }

# expect LINE COUNTS CHECK...: a line of the output begins with the first text, and the last line has
# the counts.
expect() {
  local exit_code=0 wanted=0
  "${repository}/deploy/presubmit.sh" "${@:3}" >"${output}" 2>&1 || exit_code=$?
  [[ "$2" == *" 0 failed"* ]] || wanted=1
  [[ $'\n'"$(<"${output}")" == *$'\n'"$1"* && "$(tail --lines=1 "${output}")" == "$2" &&
    "${exit_code}" == "${wanted}" ]] ||
    { echo "${*:3}: expected $1, $2, exit code ${wanted}; got ${exit_code} and: $(<"${output}")" && exit 1; }
}
good="1 passed, 0 failed, 0 skipped"
bad="0 passed, 1 failed, 0 skipped"

file common/tensor/tensor.cc 'int size = 1;'
file common/base/clock.cc 'std::mutex mu;'
file common/base/threads.h '#include <thread>'
file deploy/server_main.cc 'ABSL_FLAG(int, port, 0, "");'
file README.md '# Name'
file BUILD 'exports_files(["README.md"])'
file common/tensor/BUILD $'library(\n)\npackage_tests()'
file tests/integration/readme_test.cc '"README.md"'
git -C "${repository}" init --quiet

# Files are looked at before they are added to git.
expect "ok      flags" "7 passed, 0 failed, 0 skipped" flags grpc_includes base_only pipes readmes \
  package_tests format
file common/tensor/flag.cc 'ABSL_FLAG(int, port, 0, "");'
expect "common/tensor/flag.cc:1:ABSL_FLAG" "${bad}" flags
rm "${repository}/common/tensor/flag.cc"
file common/tensor/client.h '#include <grpcpp/grpcpp.h>'
expect "common/tensor/client.h:1:" "${bad}" grpc_includes
file common/tensor/client.h 'usleep(3);'
expect "common/tensor/client.h:1:" "${bad}" base_only
rm "${repository}/common/tensor/client.h"
file deploy/README.md '# Jobs'
expect "tests/integration/readme_test.cc: expected deploy/README.md" "${bad}" readmes
rm "${repository}/deploy/README.md"
file common/base/BUILD $'test(\n)'
expect "common/base/BUILD: expected package_tests() at the end" "${bad}" package_tests
file common/base/BUILD $'package_tests()\n\ntest(\n)'
expect "common/base/BUILD: expected package_tests() at the end" "${bad}" package_tests
file common/base/BUILD $'test(\n)\n\npackage_tests()'
expect "ok      package_tests" "${good}" package_tests
file deploy/some.sh $'echo text |\n  grep --quiet text'
expect "deploy/some.sh:2:" "${bad}" pipes
quiet_grep='grep -vq'  # so that the check does not find this line
file deploy/some.sh "if cat file | ${quiet_grep} text; then exit 1; fi"
expect "deploy/some.sh:1:" "${bad}" pipes
file deploy/some.sh 'grep -q text <<<"$(cat file)" || grep --quiet text file'
expect "ok      pipes" "${good}" pipes

# No file at all, which a broken git may say, is a failure. So is a failure of each command.
mv "${repository}/.git" "${TEST_TMPDIR}/git"
for check in format flags grpc_includes base_only pipes readmes package_tests tsan_tests; do
  expect "FAILED  ${check}" "${bad}" "${check}"
done
mv "${TEST_TMPDIR}/git" "${repository}/.git"
tool "${tools}/clang-format" 'exit 1'
expect "FAILED  format" "${bad}" format
# expect_failures CHECK REGULAR_EXPRESSION...: the check fails if a command of Bazel with this does.
expect_failures() {
  local check="$1"
  shift
  echo none >"${TEST_TMPDIR}/broken"
  expect "ok      ${check}" "${good}" "${check}"
  for pattern in "$@"; do
    echo "${pattern}" >"${TEST_TMPDIR}/broken"
    expect "FAILED  ${check}" "${bad}" "${check}"
  done
}
expect "skipped cuda_build: there is no CUDA toolkit" "0 passed, 0 failed, 1 skipped" cuda_build
tool "${CUDA_HOME}/bin/nvcc" 'true'
expect_failures cuda_build '^build ' '^test '
expect_failures layers 'worker/..., //server' 'server/consistency/'
expect_failures package_cycles '^query '
file common/base/user.cc '#include "common/base/mutex.h"'
tool "${tools}/clang++" '[[ "$*" == *" -Werror=thread-safety "*" common/base/user.cc" ]]'
expect_failures thread_safety '^build ' '^query '
echo none >"${TEST_TMPDIR}/broken"
tool "${tools}/clang++" 'exit 1'
expect "FAILED  thread_safety" "${bad}" thread_safety
echo none >"${TEST_TMPDIR}/broken"
# What the last commit has changed, and what is not committed.
commit() { git -C "${repository}" -c user.name=one -c user.email=one@host commit --quiet --message=some "$@"; }
expect "ok      tidy" "${good}" tidy
git -C "${repository}" add --all
commit
expect "ok      tidy" "${good}" tidy
file common/base/user.cc 'int changed;'
file common/base/user_test.cc 'int tested;'
tool "${tools}/clang-tidy" "echo \"\$*\" >'${TEST_TMPDIR}/tidied'; [[ ! -e '${TEST_TMPDIR}/untidy' ]]"
git -C "${repository}" add --all
commit
expect "ok      tidy" "${good}" tidy
[[ "$(<"${TEST_TMPDIR}/tidied")" == "--quiet common/base/user.cc -- "* ]]
touch "${TEST_TMPDIR}/untidy"
expect "FAILED  tidy" "${bad}" tidy
rm "${TEST_TMPDIR}/untidy"
expect_failures tidy '^build '
expect_failures asan_tests ' test '
expect_failures tsan_tests '^query ' ' test '

# --without runs all checks except the named ones.
echo none >"${TEST_TMPDIR}/broken"
tool "${tools}/clang-format" 'true'
expect "ok      layers" "2 passed, 0 failed, 0 skipped" --without format flags grpc_includes base_only pipes readmes \
  package_tests tidy thread_safety cuda_build asan_tests tsan_tests

exit_code=0
"${repository}/deploy/presubmit.sh" form >"${output}" 2>&1 || exit_code=$?
grep "presubmit: expected checks of: format .*; got form" "${output}"
((exit_code == 2))
