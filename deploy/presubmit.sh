#!/usr/bin/env bash
# The checks beyond deploy/test.sh: other compilers and sanitizers, layers, and form. Each has a line
# with its seconds. The last line is "N passed, N failed, N skipped".
# Usage: deploy/presubmit.sh [[--without] CHECK...]; all checks unless given, in the order of --help.
set -euo pipefail

all_checks=(format flags grpc_includes base_only pipes readmes package_tests layers package_cycles
  tidy thread_safety cuda_build asan_tests tsan_tests)
is_without=0
if [[ "${1:-}" == --without ]]; then
  is_without=1
  shift
fi
for argument in "$@"; do
  if [[ "${argument}" == --help ]]; then
    sed -n '2,/^set /{/^# \?/s///p}' "${BASH_SOURCE[0]}"
    echo "Checks: ${all_checks[*]}"
    exit 0
  elif [[ " ${all_checks[*]} " != *" ${argument} "* ]]; then
    echo "presubmit: expected checks of: ${all_checks[*]}; got ${argument}" >&2
    exit 2
  fi
done
checks=("$@")
if [[ ${#checks[@]} -eq 0 || ${is_without} -eq 1 ]]; then
  checks=()
  for name in "${all_checks[@]}"; do
    [[ " $* " == *" ${name} "* ]] || checks+=("${name}")
  done
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
# shellcheck source=deploy/checks.sh
source deploy/checks.sh
quiet=(--noshow_progress "--ui_event_filters=-info,-debug")
# Prints the logs of failed tests, which Bazel counts as information, and no line for a test that passed.
failures_only=(--noshow_progress --ui_event_filters=-debug --test_output=errors --test_summary=terse)

# Prints our files that match the given patterns, new files included. Fails if there is none.
sources() {
  local file files
  files="$(git ls-files --cached --others --exclude-standard -- "$@")"
  while read -r file; do
    if [[ -f "${file}" ]]; then echo "${file}"; fi
  done <<<"${files}" | grep .
}

query() { bazel query "${quiet[@]}" --nonodep_deps --noimplicit_deps --notool_deps "$@"; }

# clang's builds have a Bazel server and a folder of their own. So they may run beside gcc's, and neither
# makes the other compile again.
clang_bazel() {
  bazel --output_user_root="${HOME}/.cache/capstan/clang" "$1" --experimental_convenience_symlinks=ignore \
    "${failures_only[@]}" --keep_going --build_tests_only "${@:2}"
}

# What holds and moves a job's bytes, and what reads bytes of others: there sanitizers find most. Whole
# clusters run under TSan, which sees memory that is used after its end, too.
sanitized=(//common/{codec,exchange,tensor,wire}/... //server/{checkpoint,shard,slice,sparse}/...
  //worker/{client,client_api,program}/... //tests/fuzz/...)

# With clang, which also checks lock annotations and layers of what it builds.
asan_tests() { clang_bazel test --config=asan -- "${sanitized[@]}"; }

# Compiles CUDA code with nvcc for two kinds of GPUs: the oldest, and the ones that kernels are measured
# on. The default build compiles it for the emulator.
cuda_build() {
  local flags=(--config=cuda --define=cuda_architectures=75,90)
  bazel build "${quiet[@]}" "${flags[@]}" --keep_going //...
  bazel test "${flags[@]}" "${failures_only[@]}" //kernels/cuda:resource_usage_test
}

# The tests that TSan runs. Only threads can race: the tests of code that starts some, by base's classes or
# by itself. Each package has its tests in one program. Of whole jobs, in_process_cluster_test is enough
# for a commit. Debian's gRPC and UCX are not instrumented: tests that link them are left out.
threaded_tests() {
  local starters threaded
  starters="$(sources '*.h' '*.cc' | xargs grep --files-with-matches '#include <thread>')"
  threaded="//common/base/... + //common/net/... + //common/scheduler/... + //common/tensor/... +
    //common/transport/... + //common/trust/... + //server/coordinator/... + //server/shard/... +
    //worker/client/... + //worker/program/... + //tests/cluster:in_process_cluster_test"
  # From a file to the program with it: the source of all tests of a package is between them.
  query "tests(rdeps(${threaded}, set(${starters//$'\n'/ }), 3)) except
    attr(tags, '\b(manual|grpc|ucx|gpu|no_sanitizer)\b', ${threaded})"
}

tsan_tests() {
  threaded_tests >"${scratch}/threaded"
  clang_bazel test --config=tsan --target_pattern_file="${scratch}/threaded"
}

# clang's law of lock annotations, where no sanitizer's test compiles with clang. Only what includes the
# lock is read.
thread_safety() {
  local locking threaded tests compiled
  bazel build "${quiet[@]}" //proto/... //common/charts:chart_files_header //server/page:asset_files_header
  locking="$(sources {common,deploy,kernels,server,worker}/'*.h' {common,deploy,kernels,server,worker}/'*.cc' |
    xargs grep --files-with-matches '#include "common/base/mutex.h"' |
    while read -r file; do
      if [[ -f "${file%.h}.cc" ]]; then echo "${file%.h}.cc"; else echo "${file}"; fi
    done | sort --unique)"
  threaded="$(threaded_tests)"
  tests="tests(set(${sanitized[*]}))"
  compiled="$(query "kind('source file',
    deps(${tests} except attr(tags, '\bno_sanitizer\b', ${tests}) + set(${threaded//$'\n'/ })))" |
    sed --quiet 's|:|/|; s|^//||p')"
  grep --line-regexp --fixed-strings --invert-match --file=<(echo "${compiled}") <<<"${locking}" |
    xargs --max-procs="$(nproc)" --max-args=8 clang++ -x c++ -std=c++17 -fsyntax-only -Wno-everything \
      -Wthread-safety -Werror=thread-safety -I. -Ibazel-bin
}

# clang-tidy with the checks of .clang-tidy, over the product's sources that the last commit has changed,
# or that are not committed. Not CUDA's and UCX's, which need other headers.
tidy() {
  local changed
  if ! git rev-parse --quiet --verify HEAD~1 >/dev/null; then
    echo "there is no earlier commit to compare with"
    return 0
  fi
  bazel build "${quiet[@]}" //proto/... //common/charts:chart_files_header //server/page:asset_files_header
  changed="$(git diff --name-only --diff-filter=d HEAD~1 -- {common,deploy,kernels,server,worker}/'*.cc' |
    grep --invert-match --extended-regexp '_test\.cc$|cuda|ucx' || true)"
  [[ -n "${changed}" ]] || return 0
  # shellcheck disable=SC2016
  xargs --max-procs="$(nproc)" --max-args=4 bash -c \
    'exec clang-tidy --quiet "$@" -- -x c++ -std=c++17 -I. -Ibazel-bin' clang-tidy <<<"${changed}"
}

# Prints the dependencies of the targets $1 in this repository, except in the folders that match the
# regular expression $2.
reached_beyond() {
  # The targets of the root package are visibility groups, not code.
  query "filter('^//', deps($1)) except filter('^//($2)[:/]|^//:', deps($1))"
}

# Must print nothing.
layers() {
  local found
  found="$(
    query "somepath(//worker/..., //server/...)"
    query "somepath(//server/..., //worker/...)"
    query "somepath(//server/coordinator/... except tests(//server/coordinator/...), //server/shard/... + //server/slice/...)"
    reached_beyond "(//common/... except //common/optimizer/...)" "common|proto|third_party"
    reached_beyond //common/optimizer/... "common|kernels|proto|third_party"
    # Tests of kernels, and their benchmark, compare with the codecs of the CPU.
    reached_beyond //kernels/... "kernels|common/(base|codec|tensor)|tests/cuda_emulator|third_party"
    query "somepath(//kernels/cuda:topk_codec + //kernels/cuda:int8_codec, //common/codec/...)"
    reached_beyond //server/consistency/... "server/consistency|common/base|third_party"
  )"
  [[ -z "${found}" ]] || { echo "${found}" && return 1; }
}

# No package depends on itself by way of others.
package_cycles() {
  local edges
  edges="$(query 'kind("cc_.* rule", //...)' --output=graph --nograph:factored |
    sed --quiet 's|^ *"//\([^":]*\):\?[^"]*" -> "//\([^":]*\):\?[^"]*".*|\1 \2|p' |
    awk '$1 != $2' | sort --unique)"
  [[ -n "${edges}" ]] || { echo "expected packages that depend on others" && return 1; }
  tsort <<<"${edges}" >/dev/null  # names a cycle's packages
}

# Fails and prints the lines with the basic regular expression $1, except in files with a path that
# matches the extended one $2.
only_in() {
  local file files found=0
  files="$(sources '*.h' '*.cc')"
  while read -r file; do
    [[ ! "${file}" =~ $2 ]] || continue
    ! grep --line-number --with-filename -e "$1" -- "${file}" || found=1
  done <<<"${files}"
  return "${found}"
}

grpc_includes() {
  only_in '#include <grpcpp/' '^common/transport/grpc/|(^|/)grpc_[^/]*$|_service\.(h|cc)$|_main\.cc$|_test\.cc$|^tests/'
}

# Clocks, random numbers and locks are used through common/base.
base_only() {
  only_in 'std::mutex\|condition_variable\|std::chrono::.*now\|random_device\|sleep_for\|usleep' \
    '^common/base/|_test\.cc$|^tests/'
}

flags() { only_in 'ABSL_FLAG(' '_main\.cc$'; }

# A program that writes into a pipe fails if the pipe's reader ends first, as grep --quiet does.
pipes() {
  local files
  files="$(sources '*.sh' '.ci/run' '*.sbatch')"
  xargs awk '
    FNR == 1 { is_open = 0 }
    {
      line = (is_open ? "|" : "") $0
      if (line ~ /(^|[^|])\|[ \t]*grep([ \t]+-[^ \t]+)*[ \t]+(--quiet|-[a-zA-Z]*q[a-zA-Z]*)([ \t]|$)/) {
        print FILENAME ":" FNR ": " $0
        found = 1
      }
      is_open = /(^|[^|])\|[ \t]*\\?$/
    }
    END { exit found }
  ' <<<"${files}"
}

# readme_test knows every README, and runs its commands.
readmes() {
  local file files found=0
  files="$(sources '*.md')"
  while read -r file; do
    grep --quiet --fixed-strings "\"${file}\"" tests/integration/readme_test.cc ||
      { echo "tests/integration/readme_test.cc: expected ${file} in kReadmes" && found=1; }
  done <<<"${files}"
  return "${found}"
}

# A test of library() or test() runs in package_tests() alone.
package_tests() {
  local file files found=0
  files="$(sources BUILD '*/BUILD')"
  while read -r file; do
    ! grep --quiet --extended-regexp '^(library|test)\(' "${file}" ||
      [[ "$(tail --lines=1 "${file}")" == 'package_tests()' ]] ||
      { echo "${file}: expected package_tests() at the end" && found=1; }
  done <<<"${files}"
  return "${found}"
}

format() { sources '*.h' '*.cc' | xargs clang-format --dry-run -Werror; }

for name in "${checks[@]}"; do
  echo "== ${name}"
  if [[ "${name}" == cuda_build && ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]]; then
    skip "cuda_build: there is no CUDA toolkit here"
  else
    check "${name}" "${name}"
  fi
done
print_counts
