#!/usr/bin/env bash
# Runs tests/gpu_suite.sh in bundles of scripts that pretend to be Capstan's programs.
set -euo pipefail

fail() {
  echo "$1" >&2
  exit 1
}

# A program of the bundle: the script on standard input.
program() {
  { echo '#!/usr/bin/env bash' && cat; } >"$1"
  chmod +x "$1"
}

# Makes a bundle where all is well, and goes there.
make_bundle() {
  local bundle="${TEST_TMPDIR}/$1" name
  mkdir -p "${bundle}"/{bin,jobs,tests/gpu}
  cp -L tests/gpu_suite.sh "${bundle}/tests"
  cp -L tests/gpu/{machine,report,sanitizer,training,unit_tests}.sh "${bundle}/tests/gpu"
  program "${bundle}/bin/capstan" <<'SCRIPT'
device=cpu
for flag in "$@"; do
  case "${flag}" in
    --device=*) device="${flag#*=}" ;;
    --summary_json=*) summary="${flag#*=}" ;;
  esac
done
source "$(dirname "$0")/${device}"
[[ ! -v error ]] || { echo "capstan run: ${error}" && exit 1; }
[[ ! -v summary ]] || cat >"${summary}" <<JSON
{
  "test_accuracy": ${accuracy},
  "train_loss": ${loss},
  "samples_per_s": 76250.11742743441,
  "parameters_xxh3": "${hash}"
}
JSON
echo "job digits is done: bsp"
SCRIPT
  echo "accuracy=0.98 loss=0.0194 hash=1234" >"${bundle}/bin/cpu"
  echo "accuracy=0.97 loss=0.0195 hash=5678" >"${bundle}/bin/cuda"
  program "${bundle}/bin/capstan_worker" </dev/null
  program "${bundle}/tests/kernels-cuda-gemm_test" <<'SCRIPT'
echo "[       OK ] GemmTest.Multiplies (3 ms)"
echo "[  PASSED  ] 2 tests."
echo "[       OK ] GemmTest.Transposes (12 ms)"
SCRIPT
  for name in kernels-cuda-kernel_benchmark tests-benchmark-gpu_step_benchmark; do
    program "${bundle}/tests/${name}" <<<"echo the figures of ${name}"
  done
  # The suite looks for these two on PATH; the real ones may or may not be there.
  mkdir "${bundle}/path"
  program "${bundle}/path/python3" <<<"exit 1"
  program "${bundle}/path/compute-sanitizer" <<'SCRIPT'
while [[ "$1" == --* ]]; do
  [[ "$1" != --tool ]] || shift
  shift
done
"$@" && echo "========= ERROR SUMMARY: 0 errors"
SCRIPT
  cd "${bundle}"
}

# Runs the suite; its exit code must be $1.
suite() {
  local wanted="$1" exit_code=0
  shift
  PATH="${PWD}/path:${PATH}" tests/gpu_suite.sh "$@" >output 2>&1 || exit_code=$?
  [[ "${exit_code}" == "${wanted}" ]] ||
    fail "expected exit code ${wanted}, got ${exit_code}: $(<output)"
}

# The final table, or the lines after it, must have a line that the regular expression matches.
table_has() {
  sed '1,/^stage  /d' output | grep -qE "$1" || fail "expected $1 in the table of: $(<output)"
}

all_is_well() {
  make_bundle well
  suite 0 --out=logs
  table_has '^machine +ok +first use of the GPU'
  table_has '^tests +ok +1 test programs +2 cases passed'
  table_has '^training +ok +digits-bsp  .*97.00 % \(CPU: 98.00 %\), loss 0.0195 \(0.0194\), 76250'
  table_has '^training +ok +digits-bsp again +.* 5678 and 5678'
  table_has '^training +ok +digits-async'
  table_has '^training +ok +wide-bsp again'
  table_has '^kernels +ok'
  table_has '^step +ok +gpu_step_benchmark'
  table_has '^step +not run +the same in PyTorch'
  table_has '^sanitizer +ok +racecheck +1 test programs clean'
  table_has '^0 failed'
  grep -q "the figures of kernels-cuda-kernel_benchmark" logs/kernels.log
}

without_a_gpu_nothing_is_claimed() {
  make_bundle no_gpu
  echo 'error="worker-0: no driver answers; use --device=cpu"' >bin/cuda
  suite 2
  table_has '^training +not run'
  table_has '^There is no GPU to run on: .*no driver answers'
  ! grep -q 'ok  .*kernel_benchmark' output || fail "expected no benchmark: $(<output)"
}

a_failing_test_stops_nothing_else() {
  make_bundle failing_test
  program tests/worker-engine-bad_test <<<'echo "[  FAILED  ] A.B (1 ms)"; exit 1'
  suite 1
  table_has '^tests +FAILED +worker-engine-bad_test +1 cases failed, exit code 1'
  table_has '^tests +FAILED +2 test programs +2 cases passed, 1 failed, 0 skipped'
  table_has '^step +ok'
  table_has '^2 failed'
}

worse_results_on_the_gpu_fail() {
  make_bundle worse
  echo "accuracy=0.95 loss=0.0194 hash=5678" >bin/cuda
  suite 1 --stages=training
  table_has '^training +FAILED +digits-ssp +95.00 %'
  echo "accuracy=0.98 loss=nan hash=5678" >bin/cuda
  suite 1 --stages=training
  table_has '^training +FAILED +wide-bsp  '
}

other_bits_in_a_second_run_fail() {
  make_bundle bits
  # shellcheck disable=SC2016
  echo 'accuracy=0.98 loss=0.0194 hash="${RANDOM}$$"' >bin/cuda
  suite 1 --stages=training
  table_has '^training +ok +digits-bsp '
  table_has '^training +FAILED +digits-bsp again'
}

sanitizer_errors_fail() {
  make_bundle sanitizer
  program path/compute-sanitizer <<<'echo "========= ERROR SUMMARY: 3 errors"; exit 86'
  suite 1 --stages=sanitizer
  table_has '^sanitizer +FAILED +memcheck kernels-cuda-gemm_test +exit code 86, ERROR SUMMARY: 3'
}

wrong_arguments_are_refused() {
  make_bundle arguments
  suite 1 --stages=machine,tets
  grep -q "got tets" output
  suite 1 --fast
  grep -q "got --fast" output
}

start="${PWD}"
for check in all_is_well without_a_gpu_nothing_is_claimed a_failing_test_stops_nothing_else \
  worse_results_on_the_gpu_fail other_bits_in_a_second_run_fail sanitizer_errors_fail \
  wrong_arguments_are_refused; do
  echo "== ${check}"
  cd "${start}"
  "${check}"
done
