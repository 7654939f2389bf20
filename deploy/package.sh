#!/usr/bin/env bash
# Builds Capstan's Debian package, for the release of Debian or Ubuntu that builds it.
# Usage: deploy/package.sh [--output=DIR]
#   --output=DIR   folder for capstan_VERSION_ARCHITECTURE.deb; the current folder unless given
set -euo pipefail

fail() {
  echo "package: $1" >&2
  exit "${2:-1}"
}

output="${PWD}"
for argument in "$@"; do
  case "${argument}" in
    --help)
      sed -n '2,/^set /{/^# \?/s///p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --output=?*) output="$(realpath --canonicalize-missing "${argument#*=}")" ;;
    *) fail "expected --output=DIR or --help, got ${argument}" 2 ;;
  esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v dpkg-shlibdeps >/dev/null || deploy/setup.sh build

quiet=("--ui_event_filters=-info,-debug" --noshow_loading_progress)
[[ -t 2 ]] || quiet+=(--noshow_progress)
programs=(
  //deploy/cli:capstan //deploy/cli:capstan_evaluate
  //server:capstan_coordinator //server:capstan_server //worker:capstan_worker
)
bazel build "${quiet[@]}" -- "${programs[@]}" || fail "the build failed; see above"
built="$(bazel info "${quiet[@]}" bazel-bin)"
files=()
for program in "${programs[@]}"; do
  program="${program#//}"
  files+=("${built}/${program/://}")
done
deploy/package/pack_deb.sh --output="${output}" "${files[@]}" deploy/jobs/*.textproto
