#!/usr/bin/env bash
# Tries the wheel of deploy/wheel.sh: in an empty virtual environment, with PyTorch of PyPI in the
# version of torch_requirements.txt, and with Debian's. PyTorch is kept in ~/.cache/capstan (6 GB). The
# last line is "N passed, N failed, N skipped".
# Usage: deploy/torch_test.sh [--newest] [--fetch] [--wheel=FILE]
#   --newest       the newest versions of PyPI in place of those, kept beside them
#   --fetch        only fetch what is kept
#   --wheel=FILE   the wheel to try; deploy/wheel.sh makes one unless given
set -euo pipefail

fail() {
  echo "torch test: $1" >&2
  exit "${2:-1}"
}

is_newest=0
is_fetch=0
wheel=
for argument in "$@"; do
  case "${argument}" in
    --help)
      sed -n '2,/^set /{/^# \?/s///p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --newest) is_newest=1 ;;
    --fetch) is_fetch=1 ;;
    --wheel=?*) wheel="$(realpath "${argument#*=}")" ;;
    *) fail "expected --newest, --fetch, --wheel=FILE or --help, got ${argument}" 2 ;;
  esac
done
[[ -z "${wheel}" || -f "${wheel}" ]] || fail "expected a wheel, but there is no ${wheel}" 2

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${repository}"
deploy/setup.sh </dev/null

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
# shellcheck source=deploy/checks.sh
source deploy/checks.sh

pip_install() { "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"; }

# The environment with PyTorch: made, or brought to the wanted versions. A broken one is made anew.
# Another call that does the same waits.
prepare_torch() {
  local cache="${HOME}/.cache/capstan" wanted lock
  cached="${cache}/torch"
  wanted=(--requirement deploy/torch_requirements.txt)
  if ((is_newest)); then
    cached="${cache}/torch-newest"
    mapfile -t wanted < <(sed -n 's/==.*//p' deploy/torch_requirements.txt)
    wanted+=(--upgrade)
  fi
  mkdir -p "${cache}"
  exec {lock}>"${cached}.lock"
  flock "${lock}"
  "${cached}/bin/python" -c 'import torch' 2>/dev/null || rm -rf "${cached}"
  [[ -d "${cached}" ]] || /usr/bin/python3 -m venv "${cached}"
  pip_install "${cached}" --no-cache-dir "${wanted[@]}"
  exec {lock}>&-
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
  local exit_code=0 log="${scratch}/log"
  (cd "${scratch}" && PYTHONPATH="${repository}/tests/python" PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    PATH="$(dirname "$1"):${PATH}" "$1" "${repository}/tests/python/run_tests.py" "${@:2}") \
    2>&1 </dev/null | tee "${log}" || exit_code=$?
  add_counts "the modules" "${log}" "${exit_code}"
  if ((skipped > 0)); then
    echo "FAILED  ${skipped} skipped; see above"
    failed=$((failed + skipped))
    skipped=0
  fi
}

prepare_torch
((!is_fetch)) || exit 0
if [[ -z "${wheel}" ]]; then
  deploy/wheel.sh --output="${scratch}/dist"
  wheel="$(echo "${scratch}"/dist/*.whl)"
fi
new_environment empty "${wheel}"
new_environment torch "${wheel}"
add_torch torch
python="${scratch}/torch/bin/python"
debian=(env "PYTHONPATH=$(echo "${scratch}"/empty/lib/python3*/site-packages)" /usr/bin/python3 -P)

check "the distribution is capstan-ps" "${scratch}/empty/bin/python" -m pip show --quiet capstan-ps
check "a job of built-in workers in an empty environment" trains_without_anything
check "beside PyPI's torch" imports_in_both_orders "${python}"
check "beside Debian's torch" imports_in_both_orders "${debian[@]}"
check "types" "${cached}/bin/mypy" --strict --cache-dir="${HOME}/.cache/capstan/mypy" \
  worker/python/capstan
run_modules "${python}" replaced_test torch_test torch_alone_test torch_checkpoint_test torch_codec_test \
  torch_embedding_test torch_gpu_test torch_group_test torch_here_test torch_local_test torch_plan_test \
  torch_ranks_test torch_read_test torch_recipe_test torch_state_test numpy_test process_test examples_test \
  integrations_test
print_counts
