#!/usr/bin/env bash
# Checks and measures Capstan's GPU parts on a machine with a GPU, where only a bundle is unpacked
# (deploy/bundle.sh --gpu_suite --config=cuda). Prints one table at the end.
# Usage: tests/gpu_suite.sh [--out=DIR] [--stages=NAME,...]
#   --out=DIR      keeps the logs there; removed at the end unless given
#   --stages=LIST  of machine, tests, training, kernels, step, sanitizer; all unless given
# Exit code: 0 all is well, 1 something failed, 2 there is no GPU to run on.
#
# shellcheck disable=SC2034  # the parts in tests/gpu use what seems unused here
set -euo pipefail

# Each stage's time in seconds; together under 8 minutes.
declare -A limits=(
  [machine]=30 [tests]=75 [training]=120 [kernels]=60 [step]=90 [sanitizer]=100
)
stages=(machine tests training kernels step sanitizer)

bundle="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out=
for argument in "$@"; do
  case "${argument}" in
    --help)
      sed -n '2,/^#$/{/^# /s///p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --out=?*) out="$(realpath --canonicalize-missing "${argument#*=}")" ;;
    --stages=?*) IFS=, read -r -a stages <<<"${argument#*=}" ;;
    *)
      echo "gpu_suite: expected --out=DIR, --stages=NAME,... or --help, got ${argument}" >&2
      exit 1
      ;;
  esac
done
for stage in "${stages[@]}"; do
  [[ -v "limits[${stage}]" ]] && continue
  echo "gpu_suite: expected stages among ${!limits[*]}, got ${stage}" >&2
  exit 1
done
if [[ ! -x "${bundle}/bin/capstan" ]]; then
  echo "gpu_suite: there is no ${bundle}/bin/capstan; run this from an unpacked bundle, which" \
    "deploy/bundle.sh --gpu_suite --config=cuda makes" >&2
  exit 1
fi
scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
[[ -n "${out}" ]] || out="${scratch}"
mkdir -p "${out}"

# What the parts share.
rows=()
failed=0
no_gpu=  # why nothing can run on a GPU; empty where there is one
stage_end=0  # when the stage's time is over

for part in report machine unit_tests training sanitizer; do
  # shellcheck disable=SC1090
  source "${bundle}/tests/gpu/${part}.sh"
done

# The kernels that are too slow, by the marks in their table. Arguments: as of figures.
figures_without_python() {
  local line
  if [[ "$1" != kernels ]]; then
    row "not run" "figures of $1" "no python3; the logs have them"
    return
  fi
  while read -r line; do row FAILED "${line%%  *}" "${line#*  }"; done < <(grep ' LOW$' "$2" || true)
  row ok "figures of kernels" "compared without python3, by their table"
}

# Rows of what is required of the figures. Arguments: as tests/gpu/figures.py has them, logs by
# their names.
figures() {
  local kind="$1" log result what detail lines logs=()
  shift
  for log in "$@"; do logs+=("${out}/${log}"); done
  if ! timeout 10 python3 -c '' &>/dev/null; then
    figures_without_python "${kind}" "${logs[@]}"
  elif ! lines="$(python3 "${bundle}/tests/gpu/figures.py" "${kind}" "${logs[@]}" 2>&1)"; then
    row FAILED "figures of ${kind}" "${lines##*$'\n'}"
  else
    while IFS=$'\t' read -r result what detail; do
      row "${result}" "${what}" "${detail}"
    done <<<"${lines}"
  fi
}

stage_kernels() {
  ! show kernel_benchmark kernels.log 60 "${bundle}/tests/kernels-cuda-kernel_benchmark" --json ||
    figures kernels kernels.log
}

# The computation first, by itself, so that its figures are there whatever comes of the rest.
stage_step() {
  local benchmark="${bundle}/tests/tests-benchmark-gpu-gpu_step_benchmark" logs=()
  ! show "step without communication" compute.log 40 "${benchmark}" --communication=false --json ||
    logs=(compute.log)
  if ! timeout 20 python3 -c 'import torch' &>/dev/null; then
    row "not run" "the same step in PyTorch" "python3 has no torch here"
  elif show "the same step in PyTorch" torch.log 40 python3 "${bundle}/tests/gpu/torch_step.py"; then
    logs+=(torch.log)
  fi
  [[ "${logs[0]-}" != compute.log ]] || figures step "${logs[@]}"
  ! show "step with one server" step.log 100 "${benchmark}" --runs=7 --json ||
    figures hidden step.log
}

stage=machine
stage_end=$((SECONDS + limits[machine]))
find_cublas
look_for_gpu
budget=0
for stage in "${stages[@]}"; do
  stage_start=${SECONDS}
  stage_end=$((SECONDS + limits[${stage}]))
  budget=$((budget + limits[${stage}]))
  echo "== ${stage} (at most ${limits[${stage}]} s)"
  if [[ -n "${no_gpu}" && "${stage}" != machine ]]; then
    row "not run" "all of it" "no GPU"
  else
    "stage_${stage}" || row FAILED "${stage}" "the stage ended early; see above"
  fi
  echo "   took $((SECONDS - stage_start)) s"
done

printf '\n%-9s  %-7s  %-42s  %s\n' stage result what detail
printf '%s\n' "${rows[@]}"
echo "${failed} failed; ${SECONDS} s of at most ${budget} s"
[[ "${out}" == "${scratch}" ]] || echo "logs: ${out}"
if [[ -n "${no_gpu}" ]]; then
  echo "There is no GPU to run on: ${no_gpu}"
  exit 2
fi
((failed == 0))
