#!/usr/bin/env bash
# Runs tests/gpu_suite.sh in bundles with scripts in place of Capstan's programs.
set -euo pipefail

fail() {
  echo "$1" >&2
  exit 1
}

# program FILE: makes a program of the bundle from the script on standard input.
program() {
  { echo '#!/usr/bin/env bash' && cat; } >"$1"
  chmod +x "$1"
}

# Makes a bundle with good results, and goes there.
make_bundle() {
  local bundle="${TEST_TMPDIR}/$1" name
  mkdir -p "${bundle}"/{bin,jobs,tests/gpu}
  cp -L tests/gpu_suite.sh "${bundle}/tests"
  cp -L tests/gpu/{machine,report,sanitizer,training,unit_tests}.sh tests/gpu/figures.py \
    "${bundle}/tests/gpu"
  program "${bundle}/bin/capstan" <<'SCRIPT'
device=cpu
for flag in "$@"; do
  case "${flag}" in
    --device=*) device="${flag#*=}" ;;
    --summary_json=*) summary="${flag#*=}" ;;
  esac
done
source "$(dirname "$0")/${device}"
# At its beginning, training is the same on both devices.
[[ " $* " != *" --epochs=2 "* || ! -v same_begin ]] || loss=0.0194 accuracy=0.98
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
  echo "accuracy=0.976 loss=0.0195 hash=5678 same_begin=1" >"${bundle}/bin/cuda"
  program "${bundle}/bin/capstan_worker" </dev/null
  program "${bundle}/tests/kernels-cuda-gemm_test" <<'SCRIPT'
echo "[       OK ] GemmTest.Multiplies (3 ms)"
echo "[  PASSED  ] 2 tests."
echo "[       OK ] GemmTest.Transposes (12 ms)"
SCRIPT
  for name in kernels-cuda-arrays_test worker-engine-{batch_feed,engine}_test; do
    program "${bundle}/tests/${name}" <<<'echo "[       OK ] Some.Test (1 ms)"'
  done
  kernel_benchmark_prints "${bundle}" '"share":0.85,"required_share":0.85'
  program "${bundle}/tests/tests-benchmark-gpu-gpu_step_benchmark" <<'SCRIPT'
step='"float32_ms":10.9,"tf32_ms":2.5,"bfloat16_ms":1.5'
[[ " $* " == *" --communication=false "* ]] ||
  step+=',"exchange_ms":20.0,"training_ms":25.0,"hidden_share":0.295'
echo "{${step}}"
SCRIPT
  # The suite looks for these two on PATH. This machine may lack them, or PyTorch.
  mkdir "${bundle}/path"
  program "${bundle}/path/python3" <<SCRIPT
case "\$*" in
  *"import torch"*) [[ -e "${bundle}/torch" ]] ;;
  *torch_step.py) cat "${bundle}/torch" ;;
  *) exec "${python}" "\$@" ;;
esac
SCRIPT
  program "${bundle}/path/compute-sanitizer" <<'SCRIPT'
while [[ "$1" == --* ]]; do
  [[ "$1" != --tool ]] || shift
  shift
done
"$@" && echo "========= ERROR SUMMARY: 0 errors"
SCRIPT
  cd "${bundle}"
}

# Lets the kernel benchmark of the bundle $1 print one kernel with these fields, $2.
kernel_benchmark_prints() {
  program "$1/tests/kernels-cuda-kernel_benchmark" <<SCRIPT
echo the table
echo '{"emulated":false,"kernels":[{"name":"sgd","size":"100","milliseconds":0.5,$2}]}'
echo a line of the log
SCRIPT
}

# Lets PyTorch be there, with these times of a step in float32, TF32 and bfloat16.
pytorch_takes() {
  echo "{\"milliseconds\": {\"float32\": $1, \"tf32\": $2, \"bfloat16\": $3}}" >torch
}

# Runs the suite; its exit code must be $1.
suite() {
  local wanted="$1" exit_code=0
  shift
  PATH="${PWD}/path:${PATH}" tests/gpu_suite.sh "$@" >output 2>&1 || exit_code=$?
  [[ "${exit_code}" == "${wanted}" ]] ||
    fail "expected exit code ${wanted}, got ${exit_code}: $(<output)"
}

# A line of the final table, or one after it, must match the regular expression.
table_has() {
  grep -qE "$1" <<<"$(sed '1,/^stage  /d' output)" || fail "expected $1 in the table of: $(<output)"
}

all_is_well() {
  make_bundle well
  suite 0 --out=logs
  table_has '^machine +ok +first use of the GPU'
  table_has '^tests +ok +4 test programs +5 cases passed'
  table_has '^training +ok +digits-bsp  .*97.60 % \(CPU: 98.00 %\), loss 0.0195 \(0.0194\), 76250'
  table_has '^training +ok +digits-bsp again +.* 5678 and 5678'
  table_has '^training +ok +digits-async'
  table_has '^training +ok +wide-bsp again'
  table_has '^kernels +ok +kernel_benchmark'
  table_has '^kernels +ok +sgd, 100 +85.0 % of .*required 85 %'
  table_has '^step +not run +the same step in PyTorch'
  table_has '^step +not run +step in float32 +10.900 ms'
  table_has '^step +ok +communication hidden +29.5 % of 20.000 ms; step 25.000 ms'
  table_has '^sanitizer +ok +memcheck +4 test programs clean'
  table_has '^sanitizer +ok +racecheck +2 test programs clean'
  table_has '^0 failed'
  grep -q "the table" logs/kernels.log
}

a_step_is_compared_with_pytorch() {
  make_bundle torch
  pytorch_takes 10.0 2.5 1.6
  suite 0 --stages=step
  table_has '^step +ok +step in float32 +10.900 ms, PyTorch 10.000 ms: ratio 1.090'
  table_has '^step +ok +step in bfloat16 +1.500 ms, PyTorch 1.600 ms: ratio 0.938'
  pytorch_takes 9.8 2.5 1.5
  suite 1 --stages=step
  table_has '^step +FAILED +step in float32 +.*ratio 1.112, required at most 1.10'
  table_has '^step +ok +step in tf32'
  table_has '^1 failed'
}

low_figures_fail() {
  make_bundle low
  kernel_benchmark_prints "${PWD}" '"share":0.849,"required_share":0.85'
  suite 1 --stages=kernels
  table_has '^kernels +FAILED +sgd, 100 +84.9 %'
  kernel_benchmark_prints "${PWD}" '"share":0.9'
  suite 1 --stages=kernels
  table_has "^kernels +FAILED +figures of kernels +.*expected 'required_share'"
  program tests/kernels-cuda-kernel_benchmark <<<"echo nothing"
  suite 1 --stages=kernels
  table_has '^kernels +FAILED +figures of kernels +.*expected a line of JSON'
}

without_python_only_kernels_are_compared() {
  make_bundle no_python
  program path/python3 <<<"exit 1"
  suite 0 --stages=kernels,step
  table_has '^kernels +ok +figures of kernels +compared without python3'
  table_has '^step +not run +figures of hidden +no python3'
  program tests/kernels-cuda-kernel_benchmark <<'SCRIPT'
echo "sgd                    100000000     0.5000     1200000000    2400.0    86%       85% ok"
echo "softmax cross-entropy  1000 x 100    0.5000     1200000000    2000.0    71%       75% LOW"
SCRIPT
  suite 1 --stages=kernels
  table_has '^kernels +FAILED +softmax cross-entropy +1000 x 100 .* 71% +75% LOW'
  table_has '^1 failed'
}

without_a_gpu_nothing_is_claimed() {
  make_bundle no_gpu
  local why
  for why in 'no NVIDIA driver answers' 'looking for GPUs: cudaErrorNoDevice: none'; do
    echo "error=\"worker-0: ${why}; use --device=cpu\"" >bin/cuda
    suite 2
    table_has '^training +not run'
    table_has "^There is no GPU to run on: .*${why}"
    ! grep -q 'ok  .*kernel_benchmark' output || fail "expected no benchmark: $(<output)"
  done
}

a_gpu_that_cannot_be_used_fails() {
  make_bundle bad_gpu
  local why
  for why in 'the NVIDIA driver is too old; use --device=cpu' 'error while loading shared libraries' \
    'this program was built without CUDA; use --device=cpu'; do
    echo "error=\"worker-0: ${why}\"" >bin/cuda
    suite 1 --stages=machine
    table_has "^machine +FAILED +first use of the GPU +.*${why}"
  done
}

# The probe fails unless the library's folder is on LD_LIBRARY_PATH.
cublas_is_found_where_python_and_conda_put_it() {
  make_bundle cublas
  program path/ldd <<<'echo "	libcublas.so.12 => not found"'
  suite 0 --stages=machine
  grep -q 'found no libcublas.so.12 in .*install CUDA 12' output
  local folder
  for folder in packages/nvidia/cublas/lib packages/nvidia/cu12/lib conda/lib; do
    mkdir -p "${folder}"
    touch "${folder}/libcublas.so.12"
    # shellcheck disable=SC2016
    echo '[[ ":${LD_LIBRARY_PATH}" == *:'"${PWD}/${folder}"'* ]] || error="no cuBLAS"
      accuracy=0.98 loss=0.0194 hash=5678' >bin/cuda
    CONDA_PREFIX="${PWD}/conda" PYTHONPATH="${PWD}/packages" suite 0 --stages=machine
    ! grep -q 'found no' output || fail "$(<output)"
    rm "${folder}/libcublas.so.12"
  done
}

a_failing_test_stops_nothing_else() {
  make_bundle failing_test
  program tests/tests-cluster-bad_test <<<'echo "[  FAILED  ] A.B (1 ms)"; exit 1'
  suite 1
  table_has '^tests +FAILED +tests-cluster-bad_test +1 cases failed, exit code 1'
  table_has '^tests +FAILED +5 test programs +5 cases passed, 1 failed, 0 skipped'
  table_has '^step +ok'
  table_has '^2 failed'
}

what_takes_too_long_is_not_run() {
  make_bundle slow
  program tests/kernels-cuda-kernel_benchmark <<<'exit 124'
  program tests/tests-cluster-slow_test <<<'exit 124'
  echo 'exit 124' >bin/cuda
  suite 0 --stages=tests,training,kernels
  table_has '^tests +not run +tests-cluster-slow_test'
  table_has '^tests +ok +5 test programs +5 cases passed'
  table_has '^training +not run +digits-bsp '
  table_has '^kernels +not run +kernel_benchmark'
}

worse_results_on_the_gpu_fail() {
  make_bundle worse
  echo "accuracy=0.95 loss=0.0194 hash=5678" >bin/cuda
  suite 1 --stages=training
  table_has '^training +FAILED +digits-ssp +95.00 %'
  echo "accuracy=0.98 loss=nan hash=5678" >bin/cuda
  suite 1 --stages=training
  table_has '^training +FAILED +wide-bsp  '
  table_has '^training +ok +digits-async '
}

# Differences that are too large for float32 in BSP only, above all at its beginning.
float32_in_bsp_is_compared_closely() {
  make_bundle closely
  echo "accuracy=0.973 loss=0.0194 hash=5678" >bin/cuda
  suite 1 --stages=training
  table_has '^training +FAILED +digits-bsp +97.30 %'
  table_has '^training +ok +digits-bsp-tf32'
  table_has '^training +ok +digits-ssp'
  echo "accuracy=0.98 loss=0.0205 hash=5678" >bin/cuda
  suite 1 --stages=training
  table_has '^training +FAILED +digits-bsp +98.00 %'
  table_has '^training +ok +digits-bsp-bfloat16'
  echo "accuracy=0.98 loss=0.01945 hash=5678" >bin/cuda
  suite 1 --stages=training
  table_has '^training +FAILED +digits-bsp-begin +98.00 %'
  table_has '^training +ok +digits-bsp  '
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
  table_has '^sanitizer +FAILED +memcheck worker-engine-engine_test '
}

a_sanitizer_that_says_nothing() {
  make_bundle silent_sanitizer
  program path/compute-sanitizer <<<'echo "Error: unsupported device"; exit 1'
  suite 0 --stages=sanitizer
  table_has '^sanitizer +not run +racecheck +it does not work here: Error: unsupported device'
  # shellcheck disable=SC2016
  program path/compute-sanitizer <<'SCRIPT'
[[ "$*" != *gemm_test ]] || { echo "Internal error" && exit 1; }
[[ "$*" != *batch_feed_test ]] || exit 137
echo "========= ERROR SUMMARY: 0 errors"
SCRIPT
  suite 1 --stages=sanitizer
  table_has '^sanitizer +FAILED +memcheck kernels-cuda-gemm_test +exit code 1, no summary: Internal'
  table_has '^2 failed'
}

wrong_arguments_are_refused() {
  make_bundle arguments
  suite 1 --stages=machine,tets
  grep -q "got tets" output
  suite 1 --fast
  grep -q "got --fast" output
}

start="${PWD}"
python="$(type -P python3)"
for check in all_is_well a_step_is_compared_with_pytorch low_figures_fail \
  without_python_only_kernels_are_compared without_a_gpu_nothing_is_claimed \
  a_gpu_that_cannot_be_used_fails cublas_is_found_where_python_and_conda_put_it \
  a_failing_test_stops_nothing_else what_takes_too_long_is_not_run worse_results_on_the_gpu_fail \
  float32_in_bsp_is_compared_closely other_bits_in_a_second_run_fail sanitizer_errors_fail \
  a_sanitizer_that_says_nothing wrong_arguments_are_refused; do
  echo "== ${check}"
  cd "${start}"
  "${check}"
done
