#!/usr/bin/env bash
# `capstan run --rendezvous`: the same command line on machines with links of 1 Gbit/s.
set -euo pipefail

source "${TEST_SRCDIR}/capstan/tests/machines/machines.sh"
capstan="${TEST_SRCDIR}/capstan/deploy/cli/capstan"
meet="$(cluster_address node0):4000"
keys="${TEST_TMPDIR}/keys"
guide="${TEST_SRCDIR}/capstan/deploy/guide/when-lost.md"
codes=()
# A job that would take minutes.
long=(--insecure --epochs=1000 --lease_seconds=4 --heartbeat_seconds=0.5 --rpc_deadline_seconds=8)

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

# expect_documented TEST TEXT FILE: the file has this message, and the guide explains it.
expect_documented() {
  local file
  for file in "$3" "${guide}"; do
    grep --quiet --fixed-strings -- "$2" "${file}" || failed "$1" "expected '$2' in ${file}"
  done
}

# expect_refused MESSAGE NNODES FLAGS...: ends machine 1, while machine 0 waits.
expect_refused() {
  local message="$1" code=0
  shift
  start refused 1 "$@"
  wait "${cluster_pids[-1]}" || code=$?
  [[ "${code}" == 1 ]] || failed refused "expected exit code 1 on machine 1, got ${code}"
  expect_documented refused "${message}" "$(log refused 1)"
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

# wait_for_text TEST TEXT FILE: until the file has it, at most 20 s.
wait_for_text() {
  local try
  for ((try = 0; try < 200; ++try)); do
    ! grep --quiet --fixed-strings -- "$2" "$3" 2>/dev/null || return 0
    sleep 0.1
  done
  failed "$1" "expected '$2' in $3"
}

# wait_for TEST NODE TEXT: until the machine's output has it.
wait_for() { wait_for_text "$1" "$3" "$(log "$1" "$2")"; }

# start_long TEST FLAGS...: until both machines train.
start_long() {
  local test="$1"
  shift
  for node in 0 1; do start "${test}" "${node}" 2 "${long[@]}" "$@"; done
  for node in 0 1; do wait_for "${test}" "${node}" 'training'; done
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
# 460 steps of 2 P (N - 1) / N bytes: P is 68,904, N is 2. Headers and TLS are less than 10 %.
payload=$((460 * 68904))
((payload <= sent && sent < payload * 11 / 10)) ||
  failed two "expected ${payload} bytes over the link of machine 1, and up to 10 % more; got ${sent}"

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

# Workers that are programs of the user's. Without ranks, they get them when they join.
train="PYTHONPATH=${TEST_SRCDIR}/capstan/worker/python/site exec python3 -B \
${TEST_SRCDIR}/capstan/tests/integration/linear_regression.py"
for node in 1 0; do start program "${node}" 2 --keys="${keys}" --first_rank="${node}" --worker_command="${train}"; done
finish
expect_codes program 0 0
expect_text program 0 'model              program'
grep --quiet 'joined as worker 1' "${TEST_TMPDIR}/program/$(cluster_address node1)/worker-0.log" ||
  failed program 'expected rank 1 on machine 1'
run rankless 2 --insecure --worker_command="echo \"rank \${RANK-none} of \${WORLD_SIZE}\"; ${train} --steps=5"
expect_codes rankless 0 0
grep --quiet 'rank none of 2' "${TEST_TMPDIR}/rankless/worker-0.log" || failed rankless 'expected no rank'
start early 0 2 --insecure --worker_command='exec sleep 1000'
start early 1 2 --insecure --worker_command='echo no data; exit 3'
finish
expect_codes early 1 1
for node in 0 1; do
  expect_text early "${node}" 'worker-0 ended (exit code 3) before the job had all its members: no data'
done
start ranks 0 1 --insecure --first_rank=1 --worker_command=true
finish
expect_codes ranks 2
expect_text ranks 0 '--first_rank: expected 1 ranks from 0 to 0'

# Wrong flags are refused.
run network 1 --insecure --network=10.88.0.0/24
expect_codes network 2
expect_text network 0 'got 10.88.0.0/24; this machine has lo 127.0.0.1, eth0 10.77.0.10'
run keyless 1
expect_codes keyless 2
expect_text keyless 0 '--rendezvous: expected --keys=DIR'

# A job that fails in its first moment ends everywhere. A machine that comes late learns the reason.
without_data=(--insecure --data_format=csv --data_path="${TEST_TMPDIR}/no.csv")
start data 0 2 "${without_data[@]}"
wait_for data 0 'no.csv does not exist'
begin="${SECONDS}"
start data 1 2 "${without_data[@]}"
finish
expect_codes data 1 1
expect_text data 1 'the job failed: a worker failed before it registered: data file '
expect_documented data 'does not exist: check the path; every worker reads it on its own machine' "$(log data 1)"
((SECONDS - begin <= 10)) || failed data "expected an end within 10 s, took $((SECONDS - begin)) s"

# A killed server ends the job within the lease and a few seconds. The job goes on with the same
# command.
saved=(--checkpoint_dir="${TEST_TMPDIR}/saved" --checkpoint_steps=20)
start_long killed "${saved[@]}"
wait_for_text killed ' is complete' "${TEST_TMPDIR}/killed/coordinator.log"
begin="${SECONDS}"
kill -KILL "$(pids_of node1 capstan_server)"
finish
expect_codes killed 1 1
((SECONDS - begin <= 15)) || failed killed "expected an end within 15 s, took $((SECONDS - begin)) s"
expect_documented killed 'lease); its shards are lost' "$(log killed 0)"
step="$("${capstan}" checkpoint --list="${TEST_TMPDIR}/saved" |
  sed -n 's/.* step \([0-9]*\) of .*/\1/p' | sort --numeric-sort | tail -n 1)"
run restored 2 --insecure --steps="$((step + 100))" "${saved[@]}" --restore=latest
expect_codes restored 0 0
expect_text restored 0 "goes on from step ${step} "

# A killed coordinator is started again, and tells the other machine of the end.
start_long successor
kill -KILL "$(pids_of node0 capstan_coordinator)"
wait_for_text successor 'has taken over in phase TRAINING' "${TEST_TMPDIR}/successor/coordinator.log"
expect_documented successor 'another one goes on with the job' "$(log successor 0)"
kill -INT "${cluster_pids[0]}"
finish
expect_codes successor 130 1
expect_text successor 1 'interrupted by SIGTERM'

start_long headless --restart=never
kill -KILL "$(pids_of node0 capstan_coordinator)"
finish
expect_codes headless 1 1
expect_documented headless 'coordinator ended (killed by signal 9)' "$(log headless 0)"
expect_text headless 1 'has been unreachable for 8 s; check that it runs'

# One that is killed between two heartbeats has no connection that could break, and costs its lease.
# Hardly three in a row.
for test in bereft1 bereft2 bereft3; do
  coordinator_log="${TEST_TMPDIR}/${test}/coordinator.log"
  start_long "${test}"
  kill -KILL "$(pids_of node1 capstan_worker)"
  wait_for "${test}" 1 'worker-0 ended (killed by signal 9)'
  wait_for_text "${test}" 'the others go on' "${coordinator_log}"
  kill -INT "${cluster_pids[0]}"
  finish
  expect_codes "${test}" 130 1
  ! grep --quiet 'has ended, or its connection has broken' "${coordinator_log}" || break
done
expect_documented "${test}" 'has ended, or its connection has broken' "${coordinator_log}"

start_long interrupted
kill -INT "${cluster_pids[0]}"
finish
expect_codes interrupted 130 1

# Machines that were told something else are refused at once. The others wait for a right one.
"${capstan}" keys --out="${TEST_TMPDIR}/other" --hosts="$(cluster_address node1)"
mkdir "${TEST_TMPDIR}/stale"
cp "${keys}"/{ca.crt,tls.crt,tls.key} "${TEST_TMPDIR}/other/token" "${TEST_TMPDIR}/stale"

start refused 0 2 --keys="${keys}"
wait_for refused 0 'the other machines meet at'
expect_refused 'servers and 2 workers, but the flags here say 3 and 3' 3 --keys="${keys}"
expect_refused 'expected the token of this job, got another one' 2 --keys="${TEST_TMPDIR}/stale"
expect_refused 'has a certificate that is not trusted here' 2 --keys="${TEST_TMPDIR}/other"
expect_refused 'speaks TLS; expected --keys=DIR' 2 --insecure
kill -INT "${cluster_pids[0]}"
cluster_pids=("${cluster_pids[0]}")
finish
expect_codes refused 130

expect_nothing_left
