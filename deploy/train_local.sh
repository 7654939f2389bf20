#!/usr/bin/env bash
# Builds Capstan and trains on this machine: the digits job, or the job of the arguments.
# Usage: deploy/train_local.sh [flags of `capstan run`], from any folder.
# Example: deploy/train_local.sh --consistency=ssp --staleness=3 --num_workers=4
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
"${repository}/deploy/setup.sh" build

# On a terminal, Bazel shows its progress; in a log, only errors.
quiet=("--ui_event_filters=-info,-debug" --noshow_loading_progress)
[[ -t 2 ]] || quiet+=(--noshow_progress)
echo "building ..."
(cd "${repository}" && bazel build "${quiet[@]}" //deploy/cli:capstan)

exec "${repository}/bazel-bin/deploy/cli/capstan" run \
  --job="${repository}/deploy/jobs/digits.textproto" \
  --run_dir="${repository}/runs/$(date +%Y%m%d-%H%M%S)-$$" \
  "$@"
