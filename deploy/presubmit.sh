#!/usr/bin/env bash
# The checks beyond deploy/test.sh: other compilers and sanitizers, layers, and form. Ends with one
# line for each check. The exit code is 0 unless a check failed.
# Usage: deploy/presubmit.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
quiet=(--noshow_progress "--ui_event_filters=-info,-debug")
# Prints the logs of failed tests, and no line for a test that passed.
failures_only=(--test_output=errors --test_summary=terse)

# Prints our files that match the given patterns, new files included.
sources() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    [[ ! -f "${file}" ]] || echo "${file}"
  done
}

# What holds and moves a job's bytes, and what reads bytes of others: there sanitizers find most. Whole
# clusters run under TSan, which sees memory that is used after its end, too.
sanitized=(//common/{codec,exchange,wire}/... //server/{checkpoint,shard,sparse}/...
  //worker/{client,client_api}/... //tests/fuzz/...)

# With clang, which also checks lock annotations and layers of what it builds.
asan_tests() {
  bazel test "${quiet[@]}" "${failures_only[@]}" --keep_going --config=asan --build_tests_only -- \
    "${sanitized[@]}"
}

# With nvcc, if it is installed. The default build compiles CUDA code for the emulator.
cuda_build() {
  if [[ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]]; then
    bazel build "${quiet[@]}" --keep_going --config=cuda //...
    bazel test "${quiet[@]}" "${failures_only[@]}" --config=cuda //kernels/cuda:resource_usage_test
  else
    echo "no CUDA toolkit here: nvcc compiles nothing"
  fi
}

query() { bazel query "${quiet[@]}" --nonodep_deps --noimplicit_deps --notool_deps "$@"; }

# Only threads can race: the tests of code that starts some, by base's classes or by itself.
# Debian's gRPC and UCX are not instrumented: .bazelrc leaves out the tests that link them.
tsan_tests() {
  local starters
  starters="$(sources '*.h' '*.cc' | xargs grep --files-with-matches '#include <thread>')" || return 1
  query "tests(rdeps(//common/base/... + //common/scheduler/... + //common/transport/... +
    //server/shard/... + //worker/client/... + //worker/client_api/... + //tests/cluster/... except
    //tests/cluster:cuda_cluster_test, set(${starters//$'\n'/ }), 2))" >"${scratch}/threaded" || return 1
  bazel test "${quiet[@]}" "${failures_only[@]}" --keep_going --config=tsan --build_tests_only \
    --target_pattern_file="${scratch}/threaded"
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
    query "somepath(//worker/..., //server/...)" &&
      query "somepath(//server/..., //worker/...)" &&
      query "somepath(//server/coordinator/... except tests(//server/coordinator/...), //server/shard/...)" &&
      reached_beyond //common/... "common|proto|third_party" &&
      # Tests of kernels, and their benchmark, compare with the codecs of the CPU.
      reached_beyond //kernels/... "kernels|common/(base|codec|tensor)|tests/cuda_emulator|third_party" &&
      query "somepath(//kernels/cuda:topk_codec + //kernels/cuda:int8_codec, //common/codec/...)" &&
      reached_beyond //server/consistency/... "server/consistency|common/base|third_party"
  )" || return 1
  [[ -z "${found}" ]] || { echo "${found}" && return 1; }
}

# No package depends on itself by way of others.
package_cycles() {
  local edges
  edges="$(query 'kind("cc_.* rule", //...)' --output=graph --nograph:factored |
    sed --quiet 's|^ *"//\([^":]*\):\?[^"]*" -> "//\([^":]*\):\?[^"]*".*|\1 \2|p' |
    awk '$1 != $2' | sort --unique)" || return 1
  [[ -n "${edges}" ]] || { echo "expected packages that depend on others" && return 1; }
  tsort <<<"${edges}" >/dev/null  # names a cycle's packages
}

# Fails and prints the lines with the basic regular expression $1, except in files with a path that
# matches the extended one $2.
only_in() {
  local found
  found="$(sources '*.h' '*.cc' | grep --extended-regexp --invert-match "$2" |
    xargs --no-run-if-empty grep --line-number --with-filename -- "$1" || true)"
  [[ -z "${found}" ]] || { echo "${found}" && return 1; }
}

grpc_includes() {
  only_in '#include <grpcpp/' '^common/transport/grpc/|(^|/)grpc_[^/]*$|_service\.(h|cc)$|_main\.cc$|_test\.cc$|^tests/'
}

# Clocks, random numbers and locks are used through common/base.
base_only() {
  local word failed=0
  for word in 'std::mutex' 'condition_variable' 'std::chrono::.*now' 'random_device' 'sleep_for' \
    'usleep'; do
    only_in "${word}" '^common/base/|_test\.cc$|^tests/' || failed=1
  done
  return "${failed}"
}

flags() { only_in 'ABSL_FLAG(' '_main\.cc$'; }

# readme_test knows every README, and runs its commands.
readmes() {
  local file failed=0
  while read -r file; do
    grep --quiet --fixed-strings "\"${file}\"" tests/integration/readme_test.cc ||
      { echo "tests/integration/readme_test.cc: expected ${file} in kReadmes" && failed=1; }
  done < <(sources '*.md')
  return "${failed}"
}

format() { sources '*.h' '*.cc' | xargs --no-run-if-empty clang-format --dry-run -Werror; }

results=()
failed=0
# Runs the function $1; shows the end of its output when it fails.
check() {
  local start=${SECONDS} verdict=ok
  echo "== $1"
  if ! "$1" >"${scratch}/$1.log" 2>&1; then
    verdict=FAILED
    failed=$((failed + 1))
    tail -n 200 "${scratch}/$1.log"
  fi
  results+=("$(printf '%-14s %-6s %4d s' "$1" "${verdict}" $((SECONDS - start)))")
}

check format
check flags
check grpc_includes
check base_only
check readmes
check layers
check package_cycles
check cuda_build
check asan_tests
check tsan_tests

printf '%s\n' "${results[@]}"
[[ ${failed} -eq 0 ]]
