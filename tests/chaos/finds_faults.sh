#!/usr/bin/env bash
# chaos.sh must find the faults of two servers that are built with a fault on purpose: updates that are
# lost, and updates that are applied twice. A loss does not meet each fault, so some seeds are tried.
# Usage: tests/chaos/finds_faults.sh REPLY_BEFORE_RECORD_SERVER APPLIED_AGAIN_SERVER
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT

# find_fault FIGURE SERVER: until the figure of a run is not 0.
find_fault() {
  local seed code
  for seed in 1 2 3 4 5 6; do
    code=0
    rm -rf "${scratch}/files"
    tests/chaos/chaos.sh --kills=1 --seed="${seed}" --kill=server --signal=KILL --job=updates \
      --consistency=async --codec=float32 --server="$2" --keep="${scratch}/files" \
      >"${scratch}/log" || code=$?
    if grep --quiet --extended-regexp "^{\"kills\": 1, .*\"$1\": [1-9]" "${scratch}/log"; then
      ((code == 1)) || { echo "expected exit code 1, got ${code}" && return 1; }
      echo "$1 of ${2##*/}, seed ${seed}: $(tail --lines=1 "${scratch}/log")"
      return 0
    fi
  done
  cat "${scratch}/log"
  echo "FAILED  expected $1 of ${2##*/} within 6 seeds"
  return 1
}

find_fault lost_updates "$1"
find_fault doubled_updates "$2"
