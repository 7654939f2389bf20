#!/usr/bin/env bash
# `capstan run --rendezvous`: the same command line on machines with links of 1 Gbit/s. As root it
# leaves nothing behind. Without root, the report says so.
set -euo pipefail

source "${TEST_SRCDIR}/capstan/tests/benchmark/schedule/network_test.sh"
source "${TEST_SRCDIR}/capstan/tests/benchmark/schedule/shaped_cluster.sh"
capstan="${TEST_SRCDIR}/capstan/deploy/cli/capstan"
# shellcheck disable=SC2034
cluster_workers=(node0 node1 node2 node3)
# shellcheck disable=SC2034
cluster_servers=()
meet="$(cluster_address node0):4000"
keys="${TEST_TMPDIR}/keys"
codes=()

# In a subshell, because cluster_require ends its shell.
require_machines() (cluster_require "${capstan}")

remove_machines() {
  local namespace pid
  while read -r namespace _; do
    [[ "${namespace}" == "${cluster_name}"-* ]] || continue
    for pid in $(ip netns pids "${namespace}"); do kill -KILL "${pid}" 2>/dev/null || true; done
  done < <(ip netns list)
  cluster_remove
}

# log TEST NODE: the output of this machine.
log() { echo "${TEST_TMPDIR}/$1-node$2"; }

# start TEST NODE NNODES FLAGS...: one machine of a job.
start() {
  local test="$1" node="$2" nodes="$3"
  shift 3
  cluster_start "node${node}" "$(log "${test}" "${node}")" "${capstan}" run --nnodes="${nodes}" \
    --rendezvous="${meet}" --run_dir="${TEST_TMPDIR}/${test}" "$@"
}

# Waits for the machines, in the order of their start, and sets `codes`.
finish() {
  local pid code
  codes=()
  for pid in "${cluster_pids[@]}"; do
    code=0
    wait "${pid}" || code=$?
    codes+=("${code}")
  done
  cluster_pids=()
}

# run TEST NNODES FLAGS...: a whole job.
run() {
  local test="$1" nodes="$2" node
  shift 2
  for ((node = 0; node < nodes; ++node)); do start "${test}" "${node}" "${nodes}" "$@"; done
  finish
}

# failed TEST TEXT: ends with the reason and all output.
failed() {
  echo "$1: $2"
  tail -n 20 "${TEST_TMPDIR}/$1"-node* || true
  exit 1
}

# expect_codes TEST CODE...
expect_codes() {
  local test="$1"
  shift
  [[ "${codes[*]}" == "$*" ]] || failed "${test}" "expected exit codes $*, got ${codes[*]}"
  echo "${test}: exit codes $* after ${SECONDS} s"
}

# expect_text TEST NODE TEXT
expect_text() {
  grep --quiet --fixed-strings -- "$3" "$(log "$1" "$2")" ||
    failed "$1" "expected '$3' on machine $2"
}

# value OUTPUT LABEL: a row of the summary there, such as "97.22 %".
value() { sed -n "s/^  $2 *//p" "$1"; }

# expect_accurate TEST
expect_accurate() {
  local accuracy
  accuracy="$(value "$(log "$1" 0)" 'test accuracy')"
  awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy + 0 >= 95) }' ||
    failed "$1" "expected an accuracy of 95 % or more, got '${accuracy}'"
}

# wait_for TEST NODE TEXT: until the machine's output has it, at most 20 s.
wait_for() {
  local try
  for ((try = 0; try < 200; ++try)); do
    ! grep --quiet --fixed-strings -- "$3" "$(log "$1" "$2")" || return 0
    sleep 0.1
  done
  failed "$1" "machine $2 did not print '$3'"
}

end_without_namespaces require_machines
before="$(ip netns list)"
trap remove_machines EXIT
cluster_create 1
"${capstan}" keys --out="${keys}" \
  --hosts="$(for node in 0 1 2 3; do cluster_address "node${node}"; done | paste --serial --delimiters=,)"

# The result is that of a job on one machine. Its bytes cross the links.
"${capstan}" run --num_servers=2 --num_workers=2 --run_dir="${TEST_TMPDIR}/one" >"${TEST_TMPDIR}/one.log"
sent="$(cluster_bytes tx node1)"
run two 2 --keys="${keys}"
sent=$(($(cluster_bytes tx node1) - sent))
expect_codes two 0 0
expect_accurate two
hash="$(value "$(log two 0)" "parameters' XXH3")"
[[ -n "${hash}" && "${hash}" == "$(value "${TEST_TMPDIR}/one.log" "parameters' XXH3")" ]] ||
  failed two "expected the parameters of one machine, got ${hash}"
((sent >= 1000000)) || failed two "expected 1 MB or more over the link of machine 1, got ${sent} bytes"
