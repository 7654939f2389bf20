#!/usr/bin/env bash
# Checks histories of the simulation that earlier commits have not seen: the hash of the commit
# gives the first seed. Outside git it is a fixed one. A violation comes with the command that
# repeats it. A tenth as many have two copies of each shard, a fifth lose servers, and a tenth lose
# coordinators.
# The last line is "N passed, N failed": the whole counts as one case, or each violation.
# Usage: deploy/simulation_test.sh [HISTORIES]; 10000 unless given.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
histories="${1:-10000}"
program=//tests/simulation:simulation
commit="$(git rev-parse --verify --quiet HEAD 2>/dev/null || echo 00c0ffee)"
first_seed=$((16#${commit:0:8}))
log="$(mktemp)"
trap 'rm -f "${log}"' EXIT

failed=0

# run_seeds HISTORIES [FLAG]
run_seeds() {
  local flags=("--first_seed=${first_seed}" "--seeds=$1" "${@:2}") exit_code=0 before=${failed} seed
  echo "$1 histories from seed ${first_seed} on (0x${commit:0:8}): bazel run ${program} -- ${flags[*]}"
  bazel run --noshow_progress --ui_event_filters=-info "${program}" -- "${flags[@]}" 2>&1 |
    tee "${log}" || exit_code=$?
  while read -r seed; do
    echo "FAILED  repeat with: bazel run ${program} -- --first_seed=${seed} --seeds=1 ${*:2}"
    failed=$((failed + 1))
  done < <(sed --quiet 's/^seed \([0-9]*\) (.*/\1/p' "${log}")
  [[ ${exit_code} -eq 0 || ${failed} -gt ${before} ]] || failed=$((failed + 1))
}

run_seeds "${histories}"
run_seeds $((histories / 10)) --copies
run_seeds $((histories / 5)) --lost_servers
run_seeds $((histories / 10)) --lost_coordinators
if [[ ${failed} -eq 0 ]]; then
  echo "1 passed, 0 failed"
else
  echo "0 passed, ${failed} failed"
  exit 1
fi
