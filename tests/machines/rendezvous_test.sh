#!/usr/bin/env bash
# `capstan run --rendezvous`: the same command line on machines with links of 1 Gbit/s.
set -euo pipefail

source "${TEST_SRCDIR}/capstan/tests/machines/machines.sh"
capstan="${TEST_SRCDIR}/capstan/deploy/cli/capstan"
meet="$(cluster_address node0):4000"
keys="${TEST_TMPDIR}/keys"
codes=()

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

# expect_accurate TEST
expect_accurate() {
  local accuracy
  accuracy="$(value "$(log "$1" 0)" 'test accuracy')"
  awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy + 0 >= 95) }' ||
    failed "$1" "expected an accuracy of 95 % or more, got '${accuracy}'"
}

# expect_announced TEST NODE FOLDER: the server there announced the machine's address.
expect_announced() {
  grep --quiet "registered as server [0-9]* at $(cluster_address "node$2"):" "$3/server-0.log" ||
    failed "$1" "expected the address of machine $2 in $3/server-0.log"
}

# expect_all_announced TEST NNODES
expect_all_announced() {
  local node folder="${TEST_TMPDIR}/$1"
  expect_announced "$1" 0 "${folder}"
  for ((node = 1; node < $2; ++node)); do
    expect_announced "$1" "${node}" "${folder}/$(cluster_address "node${node}")"
  done
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

create_machines
"${capstan}" keys --out="${keys}" \
  --hosts="$(for node in 0 1 2 3; do cluster_address "node${node}"; done | paste --serial --delimiters=,)"

# The result is that of a job on one machine. Its bytes cross the links.
"${capstan}" run --num_servers=2 --num_workers=2 --run_dir="${TEST_TMPDIR}/one" >"${TEST_TMPDIR}/one.log"
sent="$(cluster_bytes tx node1)"
run two 2 --keys="${keys}"
sent=$(($(cluster_bytes tx node1) - sent))
expect_codes two 0 0
expect_accurate two
expect_all_announced two 2
hash="$(value "$(log two 0)" "parameters' XXH3")"
[[ -n "${hash}" && "${hash}" == "$(value "${TEST_TMPDIR}/one.log" "parameters' XXH3")" ]] ||
  failed two "expected the parameters of one machine, got ${hash}"
((sent >= 1000000)) || failed two "expected 1 MB or more over the link of machine 1, got ${sent} bytes"

# All machines, with SSP and several workers each. The servers announce the addresses of --network.
run four 4 --insecure --network=eth0 --workers_per_node=2 --consistency=ssp --staleness=2 --epochs=60
expect_codes four 0 0 0 0
expect_accurate four
expect_all_announced four 4

run range 2 --keys="${keys}" --network=10.77.0.0/24 --workers_per_node=2 --consistency=ssp \
  --staleness=2 --epochs=30
expect_codes range 0 0
expect_accurate range
expect_all_announced range 2

# Wrong flags are refused.
run network 1 --insecure --network=10.88.0.0/24
expect_codes network 1
expect_text network 0 'got 10.88.0.0/24; this machine has lo 127.0.0.1, eth0 10.77.0.10'
run keyless 1
expect_codes keyless 1
expect_text keyless 0 '--rendezvous: expected --keys=DIR'

# A failed job ends everywhere. Machine 1 may come after the coordinator's end.
run data 2 --insecure --data_format=csv --data_path=/nonexistent --registration_seconds=4 \
  --lease_seconds=2 --heartbeat_seconds=0.5 --rpc_deadline_seconds=4
expect_codes data 1 1
expect_text data 0 'data file /nonexistent does not exist'

# Each of these jobs would take minutes.
long=(--insecure --epochs=1000 --lease_seconds=2 --heartbeat_seconds=0.5 --rpc_deadline_seconds=4)

# start_long TEST: until both machines train.
start_long() {
  for node in 0 1; do start "$1" "${node}" 2 "${long[@]}"; done
  for node in 0 1; do wait_for "$1" "${node}" 'training'; done
}

# A killed server ends the job within the lease and a few seconds.
start_long killed
begin="${SECONDS}"
kill -KILL "$(pids_of node1 capstan_server)"
finish
expect_codes killed 1 1
((SECONDS - begin <= 8)) || failed killed "expected an end within 8 s, took $((SECONDS - begin)) s"

start_long interrupted
kill -INT "${cluster_pids[0]}"
finish
expect_codes interrupted 130 1

# Machines that were told different numbers.
start numbers 0 2 "${long[@]}"
wait_for numbers 0 'the other machines meet at'
start numbers 1 3 "${long[@]}"
code=0
wait "${cluster_pids[1]}" || code=$?
[[ "${code}" == 1 ]] || failed numbers "expected exit code 1 on machine 1, got ${code}"
expect_text numbers 1 'expects 2 servers and 2 workers, but the flags here say 3 and 3'
kill -INT "${cluster_pids[0]}"
cluster_pids=("${cluster_pids[0]}")
finish
expect_codes numbers 130

expect_nothing_left
