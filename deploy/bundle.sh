#!/usr/bin/env bash
# Builds one archive of Capstan for other Linux machines. They need nothing installed: unpack it
# anywhere and call capstan/bin/capstan. It also has capstan.h and libcapstan.so, for programs in C.
# At most 60 MiB (without cuBLAS).
# Usage: deploy/bundle.sh [--config=NAME]... [--with_cublas] [--gpu_suite] [--output=FILE.tar.gz]
#                         [TARGETS...]
#   --config=NAME   a configuration of .bazelrc, such as cuda
#   --with_cublas   pack cuBLAS (570 MB), for a machine with a GPU's driver but without CUDA
#   --gpu_suite     pack the tests and benchmarks of tests/gpu_suite.sh
#   --output=FILE   the archive; capstan.tar.gz in the current folder unless given
#   TARGETS         tests and benchmarks to pack, as Bazel labels. //kernels/cpu:operations_test becomes
#                   tests/kernels-cpu-operations_test, with its data. Patterns work, too.
set -euo pipefail

fail() {
  echo "bundle: $1" >&2
  exit "${2:-1}"
}

configs=()
pack_flags=()
targets=()
gpu_suite=0
output="${PWD}/capstan.tar.gz"
for argument in "$@"; do
  case "${argument}" in
    --help)
      sed -n '2,/^set /{/^# \?/s///p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --config=?*) configs+=("${argument}") ;;
    --with_cublas) pack_flags+=("${argument}") ;;
    --gpu_suite) gpu_suite=1 ;;
    --output=?*) output="$(realpath --canonicalize-missing "${argument#*=}")" ;;
    //*) targets+=("${argument}") ;;
    -*) fail "there is no flag ${argument}; --help lists them" 2 ;;
    *) fail "expected Bazel labels that begin with //, got ${argument}; --help says more" 2 ;;
  esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v patchelf >/dev/null || deploy/setup.sh

quiet=("--ui_event_filters=-info,-debug" --noshow_loading_progress)
[[ -t 2 ]] || quiet+=(--noshow_progress)
programs=(
  //deploy/cli:capstan //deploy/cli:capstan_evaluate
  //server:capstan_coordinator //server:capstan_server //worker:capstan_worker
)
library=//worker/client_api:libcapstan.so
# The two benchmarks of the GPU suite. Its tests are those with the tag.
gpu_benchmarks=(//kernels/cuda:kernel_benchmark //tests/benchmark:gpu_step_benchmark)
gpu_tests='attr(tags, "\bcuda\b", tests(//...))'

# Prints "LABEL EXECUTABLE" for each test and program among the given targets.
executables() {
  bazel cquery "${quiet[@]}" "${configs[@]}" --output=starlark \
    --starlark:expr='"%s %s" % (target.label, target.files_to_run.executable.path)' \
    "kind('.*_(binary|test) rule|alias rule', set($*))" | sort --unique
}

if ((gpu_suite)); then
  targets+=("${gpu_benchmarks[@]}")
  mapfile -t -O ${#targets[@]} targets < <(bazel query "${quiet[@]}" "${gpu_tests}")
fi
bazel build "${quiet[@]}" "${configs[@]}" -- "${programs[@]}" "${library}" "${targets[@]}" ||
  fail "the build failed; see above"
execution_root="$(bazel info "${quiet[@]}" "${configs[@]}" execution_root)"

files=()
listing="$(executables "${programs[@]}")" || fail "bazel cquery failed; see above"
while read -r label path; do
  files+=("bin/${label##*:}=${execution_root}/${path}")
done <<<"${listing}"
path="$(bazel cquery "${quiet[@]}" "${configs[@]}" --output=starlark \
  --starlark:expr='target.files.to_list()[0].path' "${library}")" ||
  fail "bazel cquery failed; see above"
files+=("lib/libcapstan.so=${execution_root}/${path}" include/capstan.h=worker/client_api/capstan.h)
if [[ ${#targets[@]} -gt 0 ]]; then
  listing="$(executables "${targets[@]}")" || fail "bazel cquery failed; see above"
  [[ -n "${listing}" ]] || fail "expected tests and benchmarks, but ${targets[*]} names none"
  while read -r label path; do
    files+=("tests/$(tr '/:' '--' <<<"${label#//}")=${execution_root}/${path}")
  done <<<"${listing}"
fi
files+=(slurm/capstan.sbatch=deploy/slurm/capstan.sbatch)
for job in deploy/jobs/*.textproto; do
  files+=("jobs/${job##*/}=${job}")
done
if ((gpu_suite)); then
  files+=(tests/gpu_suite.sh=tests/gpu_suite.sh)
  for file in tests/gpu/*.{sh,py}; do
    [[ "${file}" == *_test.sh ]] || files+=("${file}=${file}")
  done
fi

deploy/bundle/pack.sh --output="${output}" "${pack_flags[@]}" "${files[@]}"
