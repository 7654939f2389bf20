#!/usr/bin/env bash
# Tries the wheel of deploy/wheel.sh: in an empty virtual environment, with the newest PyTorch of
# PyPI, and with Debian's. PyTorch is kept in ~/.cache/capstan (6 GB), and brought up to date. The
# last line is "N passed, N failed".
# Usage: deploy/torch_test.sh
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${repository}"
deploy/setup.sh </dev/null

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
passed=0
failed=0
log="${scratch}/log"

# check TEXT COMMAND...: counts one case, and shows its output if it fails.
check() {
  local text="$1"
  shift
  if "$@" >"${log}" 2>&1 </dev/null; then
    passed=$((passed + 1))
    echo "ok      ${text}"
  else
    failed=$((failed + 1))
    echo "FAILED  ${text}"
    tail --lines=50 "${log}"
  fi
}

pip_install() { "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"; }

# The environment with PyTorch, which is installed or updated. A broken one is made anew.
prepare_torch() {
  cached="${HOME}/.cache/capstan/torch"
  "${cached}/bin/python" -c 'import torch' 2>/dev/null || rm -rf "${cached}"
  [[ -d "${cached}" ]] || /usr/bin/python3 -m venv "${cached}"
  pip_install "${cached}" --upgrade torch numpy safetensors mypy
}

# new_environment NAME WHEEL: with nothing but the wheel.
new_environment() {
  /usr/bin/python3 -m venv "${scratch}/$1"
  pip_install "${scratch}/$1" "$2"
}

# Adds what the cached environment has, which stays as it is.
add_torch() {
  echo "${cached}"/lib/python3*/site-packages \
    >"$(echo "${scratch}/$1"/lib/python3*/site-packages)/torch.pth"
}

trains_without_anything() {
  local folder="${scratch}/empty"
  ! "${folder}/bin/python" -c 'import numpy' 2>/dev/null || return 1
  (cd "${scratch}" &&
    env -i "${folder}/bin/capstan" run --epochs=5 --transport=ucx --run_dir=run &&
    env -i "${folder}/bin/python" -m capstan --version) &&
    grep '"test_accuracy": 0.9' "${scratch}/run/summary.json"
}

# Two copies of a library in one process, loaded in both orders.
imports_in_both_orders() {
  local order
  for order in "import torch, capstan" "import capstan; capstan._library.load(); import torch"; do
    "$@" -c "${order}
capstan._library.load()
assert torch.ones(2).sum() == 2
names = {line.split('/')[-1].strip() for line in open('/proc/self/maps') if '/capstan/lib/' in line}
assert 'libcapstan.so' in names, names
assert all('capstan' in name or name.startswith('libuc') for name in names), names"
  done
}

# Runs the test modules with this Python, and adds their counts. PyPI's torch has all that the cases
# need, so a skipped one counts as failed. Threads of several workers would only wait for each other.
run_modules() {
  local counts
  (cd "${scratch}" && PYTHONPATH="${repository}/tests/python" PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    PATH="$(dirname "$1"):${PATH}" "$1" "${repository}/tests/python/run_tests.py" "${@:2}") \
    2>&1 </dev/null | tee "${log}" || true
  counts="$(tail --lines=1 "${log}")"
  if [[ "${counts}" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2] + BASH_REMATCH[3]))
    [[ ${BASH_REMATCH[3]} -eq 0 ]] || echo "FAILED  ${BASH_REMATCH[3]} skipped; see above"
  else
    failed=$((failed + 1))
  fi
}

deploy/wheel.sh --output="${scratch}/dist"
wheel="$(echo "${scratch}"/dist/*.whl)"
prepare_torch
new_environment empty "${wheel}"
new_environment torch "${wheel}"
add_torch torch
python="${scratch}/torch/bin/python"
debian=(env "PYTHONPATH=$(echo "${scratch}"/empty/lib/python3*/site-packages)" /usr/bin/python3 -P)

check "a job of built-in workers in an empty environment" trains_without_anything
check "beside PyPI's torch" imports_in_both_orders "${python}"
check "beside Debian's torch" imports_in_both_orders "${debian[@]}"
check "types" "${cached}/bin/mypy" --strict --cache-dir="${HOME}/.cache/capstan/mypy" \
  worker/python/capstan
run_modules "${python}" torch_test torch_embedding_test torch_gpu_test torch_plan_test torch_read_test \
  numpy_test process_test examples_test
echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
