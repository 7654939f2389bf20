#!/usr/bin/env bash
# Builds Capstan's wheel for Python: the package `capstan`, the programs, their libraries, and
# capstan.h. Where it is installed, it needs no compiler and no Debian package. Every Python from
# 3.9 on will do.
# Usage: deploy/wheel.sh [--output=DIR]
#   --output=DIR   folder for capstan_ps-VERSION-py3-none-manylinux_2_34_x86_64.whl; dist unless given
set -euo pipefail

fail() {
  echo "wheel: $1" >&2
  exit "${2:-1}"
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
output="${PWD}/dist"
for argument in "$@"; do
  case "${argument}" in
    --help)
      sed -n '2,/^set /{/^# \?/s///p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --output=?*) output="$(cd "${OLDPWD}" && realpath --canonicalize-missing "${argument#*=}")" ;;
    *) fail "expected --output=DIR or --help, got ${argument}" 2 ;;
  esac
done
command -v patchelf >/dev/null || deploy/setup.sh

quiet=("--ui_event_filters=-info,-debug" --noshow_loading_progress)
[[ -t 2 ]] || quiet+=(--noshow_progress)
programs=(
  //deploy/cli:capstan //deploy/cli:capstan_evaluate
  //server:capstan_coordinator //server:capstan_server //worker:capstan_worker
)
library=//worker/client_api:libcapstan.so
bazel build "${quiet[@]}" -- "${programs[@]}" "${library}" || fail "the build failed; see above"
built="$(bazel info "${quiet[@]}" bazel-bin)"

built_file() { echo "${built}/$(tr ':' '/' <<<"${1#//}")"; }

files=("lib/libcapstan.so=$(built_file "${library}")" include/capstan.h=worker/client_api/capstan.h)
for program in "${programs[@]}"; do
  files+=("bin/${program##*:}=$(built_file "${program}")")
done
for file in worker/python/capstan/{*,integrations/*} deploy/jobs/*.textproto deploy/slurm/capstan.sbatch; do
  case "${file}" in
    *.py | */py.typed) files+=("${file#worker/python/capstan/}=${file}") ;;
    *.textproto) files+=("jobs/${file##*/}=${file}") ;;
    *.sbatch) files+=("slurm/${file##*/}=${file}") ;;
  esac
done

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
# The bundle's folder `capstan` is the package.
deploy/bundle/pack.sh --private_names --output="${scratch}/capstan.tar.gz" "${files[@]}" >/dev/null
tar --extract --file="${scratch}/capstan.tar.gz" --directory="${scratch}"
rm "${scratch}/capstan.tar.gz" "${scratch}/capstan/README.txt"
version="$("$(built_file //deploy/cli:capstan)" --version)"
deploy/bundle/pack_wheel.py "${scratch}" "${version##* }" "${output}"
