#!/usr/bin/env bash
# `capstan run --hosts`: machines with links of 1 Gbit/s and sshd, and a terminal on another one.
set -euo pipefail

cd "${TEST_SRCDIR}/capstan"
source tests/machines/machines.sh
folder="${TEST_TMPDIR}"
# The one in the bundle, which the machines get a copy of.
capstan="${folder}/bundle/capstan/bin/capstan"

# failed TEST TEXT: ends with the reason and all output.
failed() {
  echo "$1: $2"
  tail -n 40 "${folder}/$1.out" || true
  exit 1
}

make_bundle() {
  deploy/bundle/pack.sh --output="${folder}/capstan.tar.gz" bin/capstan=deploy/cli/capstan \
    bin/capstan_coordinator=server/capstan_coordinator bin/capstan_server=server/capstan_server \
    bin/capstan_worker=worker/capstan_worker
  mkdir -p "${folder}/bundle"
  tar -xzf "${folder}/capstan.tar.gz" -C "${folder}/bundle"
}

# Each machine has a folder of its own for what is copied.
start_sshd() {
  local node
  mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "${folder}/host_key"
  ssh-keygen -q -t ed25519 -N '' -f "${folder}/user_key"
  echo "* $(cut --delimiter=' ' --fields=1,2 "${folder}/host_key.pub")" >"${folder}/known_hosts"
  cat >"${folder}/ssh_config" <<END
IdentityFile ${folder}/user_key
UserKnownHostsFile ${folder}/known_hosts
StrictHostKeyChecking yes
END
  for node in 0 1 2 3; do
    cat >"${folder}/sshd_config${node}" <<END
HostKey ${folder}/host_key
AuthorizedKeysFile ${folder}/user_key.pub
StrictModes no
UsePAM no
PidFile none
SetEnv XDG_CACHE_HOME=${folder}/cache${node}
END
    cluster_exec "node${node}" /usr/sbin/sshd -D -f "${folder}/sshd_config${node}" &
  done
}

# hosts NODE...: their addresses, with commas.
hosts() {
  local node list=()
  for node in "$@"; do list+=("$(cluster_address "node${node}")"); done
  (IFS=, && echo "${list[*]}")
}

# start TEST FLAGS...: the command on a machine of its own. Sets `pid`. Runs it by `before`.
before=()
start() {
  local test="$1"
  shift
  # exec: signals reach the command.
  (exec "${before[@]}" ip netns exec "${cluster_name}-switch" "${capstan}" run --ssh="ssh -F ${folder}/ssh_config" \
    --run_dir="${folder}/${test}" "$@") >"${folder}/${test}.out" 2>&1 &
  pid=$!
}

# finish TEST CODE: waits for its end.
finish() {
  local code=0
  wait "${pid}" || code=$?
  [[ "${code}" == "$2" ]] || failed "$1" "expected exit code $2, got ${code}"
  echo "$1: exit code $2 after ${SECONDS} s"
}

# run TEST CODE FLAGS...
run() {
  local test="$1" code="$2"
  shift 2
  start "${test}" "$@"
  finish "${test}" "${code}"
}

# expect_text TEST TEXT
expect_text() {
  grep --quiet --fixed-strings -- "$2" "${folder}/$1.out" || failed "$1" "expected '$2'"
}

# wait_for TEST TEXT...: until the output has each text, at most 20 s.
wait_for() {
  local test="$1" text try
  shift
  for text in "$@"; do
    for ((try = 0; try < 200; ++try)); do
      ! grep --quiet --fixed-strings -- "${text}" "${folder}/${test}.out" || continue 2
      sleep 0.1
    done
    failed "${test}" "did not print '${text}'"
  done
}

# expect_accurate TEST
expect_accurate() {
  local accuracy
  accuracy="$(value "${folder}/$1.out" 'test accuracy')"
  awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy + 0 >= 95) }' ||
    failed "$1" "expected an accuracy of 95 % or more, got '${accuracy}'"
}

# expect_clean TEST: no process and no folder of a job is left on the machines, after 40 s at most. Without
# the terminal's machine, a host ends after 30 s.
expect_clean() {
  local node try left
  for ((try = 0; try < 400; ++try)); do
    left=()
    for node in 0 1 2 3; do
      mapfile -t -O "${#left[@]}" left < <(
        for program in capstan capstan_coordinator capstan_server capstan_worker; do
          pids_of "node${node}" "${program}"
        done
      )
    done
    [[ ${#left[@]} -gt 0 ]] || break
    sleep 0.1
  done
  [[ ${#left[@]} -eq 0 ]] || failed "$1" "left behind: processes ${left[*]}"
  [[ "${2:-}" == killed ]] || ! compgen -G "${folder}/cache*/capstan/job.*" >/dev/null ||
    failed "$1" "left behind: a folder of the job"
}

make_bundle
create_machines
start_sshd
long=(--epochs=1000 --lease_seconds=4 --heartbeat_seconds=0.5 --rpc_deadline_seconds=8)

# Two machines have the result of one, and the bytes cross the links.
"${capstan}" run --num_servers=2 --num_workers=2 --run_dir="${folder}/one" >"${folder}/one.out"
sent="$(cluster_bytes tx node1)"
run two 0 --hosts="$(hosts 0 1)" --summary_json="${folder}/two.json"
sent=$(($(cluster_bytes tx node1) - sent))
expect_text two 'copies the programs to 2 of 2 hosts'
expect_accurate two
hash="$(value "${folder}/two.out" "parameters' XXH3")"
[[ -n "${hash}" && "${hash}" == "$(value "${folder}/one.out" "parameters' XXH3")" ]] ||
  failed two "expected the parameters of one machine, got ${hash}"
((sent >= 1000000)) || failed two "expected 1 MB or more over the link of machine 1, got ${sent}"
cmp "${folder}/two.json" "${folder}/two/summary.json"
for file in worker-0.log coordinator.log "$(hosts 1)/server-0.log" keys/ca.key; do
  [[ -s "${folder}/two/${file}" ]] || failed two "expected the file ${file}"
done
grep --quiet "registered as server [0-9]* at $(hosts 1):" "${folder}/two/$(hosts 1)/server-0.log" ||
  failed two "expected that a server announced $(hosts 1)"
expect_clean two

# A file of hosts, with several workers on one of them. Two machines have the programs already.
cat >"${folder}/hosts" <<END
# the cluster
root@$(hosts 0):2
$(hosts 1)   # one worker

$(hosts 2)
$(hosts 3)
END
run four 0 --hosts="${folder}/hosts" --insecure --network=eth0 --consistency=ssp --staleness=2 --epochs=90
expect_text four 'copies the programs to 2 of 4 hosts'
expect_text four '4 servers, 5 workers'
expect_accurate four
[[ ! -e "${folder}/four/keys" ]] || failed four 'expected no keys'
expect_clean four

# An archive, and programs that are there already.
run archive 0 --hosts="$(hosts 0),$(hosts 1):2" --bundle="${folder}/capstan.tar.gz" \
  --job=deploy/jobs/digits.textproto
expect_accurate archive
run there 0 --hosts="$(hosts 0 1)" --remote_programs="${capstan%/*}" --trace --epochs=5
[[ "$("${capstan}" trace "${folder}/there")" == *' of 4 processes'* ]] ||
  failed there 'expected traces of both machines'
run absent 1 --hosts="$(hosts 0 1)" --remote_programs=/nonexistent
expect_text absent '--remote_programs: expected the program capstan in /nonexistent of each host'

# Programs in a folder of another user are not run.
chown nobody "${folder}/cache3/capstan"
run foreign 1 --hosts="$(hosts 3)"
expect_text foreign "expected ${folder}/cache3/capstan to belong to this user"

# Workers that are programs of the user's: their ranks, keys and folder.
train="PYTHONPATH=${PWD}/worker/python/site exec python3 -B \
${PWD}/tests/integration/linear_regression.py"
run program 0 --hosts="$(hosts 0 1)" --worker_command="pwd; echo meets at \${MASTER_ADDR}:\${MASTER_PORT}; ${train}"
expect_text program 'model              program'
for file in worker-0.log "$(hosts 1)/worker-0.log"; do
  grep --quiet --line-regexp --fixed-strings "$(pwd -P)" "${folder}/program/${file}" ||
    failed program "expected the current folder in ${file}"
  grep --quiet --line-regexp --fixed-strings "meets at $(hosts 0):29500" "${folder}/program/${file}" ||
    failed program "expected the place of rank 0 in ${file}"
done
grep --quiet 'joined as worker 1' "${folder}/program/$(hosts 1)/worker-0.log" ||
  failed program "expected rank 1 on $(hosts 1)"
expect_clean program
# A folder that the machines do not see.
mkdir "${folder}/own"
# shellcheck disable=SC2016
before=(unshare --mount sh -c 'mount -t tmpfs none "$0" && mkdir "$0/here" && cd "$0/here" && exec "$@"'
  "${folder}/own")
run folder 1 --hosts="$(hosts 0)" --worker_command=true
before=()
expect_text folder \
  "expected the folder ${folder}/own/here, in which capstan run was started, on this host, too"

# Machines that cannot be reached, and one where nobody listens.
began=${SECONDS}
run unreachable 1 --hosts="$(hosts 0),10.77.0.99,10.77.0.1"
expect_text unreachable 'host 10.77.0.99: ssh: connect to host 10.77.0.99 port 22: '
expect_text unreachable 'host 10.77.0.1: ssh: connect to host 10.77.0.1 port 22: Connection refused'
expect_text unreachable 'but cannot on '
((SECONDS - began <= 15)) || failed unreachable "expected an end within 15 s"
run network 1 --hosts="$(hosts 0 1)" --network=10.88.0.0/24
expect_text network 'got 10.88.0.0/24; this machine has lo 127.0.0.1, eth0 10.77.0.11'

run alike 2 --hosts="$(hosts 0 1)" --network=lo
expect_text alike "got 127.0.0.1 for $(hosts 0) and $(hosts 1)"

# A job that fails says why, and ends on all machines.
run data 1 --hosts="$(hosts 0 1)" --data_format=csv --data_path="${TEST_TMPDIR}/no.csv"
expect_text data 'no.csv does not exist'
expect_clean data

# start_long TEST: until all train. Each of these jobs would take minutes.
start_long() {
  start "$1" --hosts="$(hosts 0 1)" "${long[@]}"
  wait_for "$1" 'training'
}

# Others may ask the job, with the keys in its folder. The CA's private key is on no machine.
start_long interrupted
address="$(sed -n 's/.* | the other machines meet at //p' "${folder}/interrupted.out")"
status="$(cluster_exec switch "${capstan}" status --coordinator="${address}" \
  --keys="${folder}/interrupted/keys")" || failed interrupted 'expected the status, got an error'
[[ "${status}" == *training* ]] || failed interrupted "expected the status, got ${status}"
[[ -z "$(find "${folder}"/cache* -name ca.key)" ]] || failed interrupted 'ca.key is on a machine'
modes="$(stat --format=%a "${folder}"/cache*/capstan/job.*)"
[[ "${modes}" == 700$'\n'700 ]] || failed interrupted "expected folders for their owner alone, got ${modes}"
kill -INT "${pid}"
finish interrupted 130
grep --quiet '"outcome": "interrupted"' "${folder}/interrupted/summary.json" ||
  failed interrupted 'expected a summary'
expect_clean interrupted

# Another worker takes the place of a lost one on its machine, also of one that does not answer any more,
# and nothing starts again.
losing=(--epochs=400 --lease_seconds=5 --heartbeat_seconds=0.5)
"${capstan}" run --num_servers=2 --num_workers=2 "${losing[@]}" --run_dir="${folder}/long" >"${folder}/long.out"
start replaced --hosts="$(hosts 0 1)" --restart=on_failure "${losing[@]}"
wait_for replaced 'training'
kill -KILL "$(pids_of node1 capstan_worker)"
wait_for replaced 'worker-0 ended (killed by signal 9): ' '; another takes its place'
kill -STOP "$(pids_of node0 capstan_worker)"
finish replaced 0
expect_text replaced 'worker-0 is lost to the job, but runs: it is killed'
expect_text replaced 'workers replaced   2'
[[ "$(value "${folder}/replaced.out" "parameters' XXH3")" == "$(value "${folder}/long.out" "parameters' XXH3")" ]] ||
  failed replaced 'expected the parameters of an undisturbed run'
expect_clean replaced

# Another server takes the place of a lost one on its machine, too, as others have copies. So does another
# coordinator.
copies_are_whole() {
  local status
  status="$(cluster_exec switch "${capstan}" status --coordinator="${address}" --keys="${folder}/servers/keys")" &&
    [[ "${status}" == *'64 of 64 whole'* ]]
}
wait_for_copies() {
  local end=$((SECONDS + 60))
  until copies_are_whole; do
    ((SECONDS < end)) || failed servers 'expected whole copies'
    sleep 0.1
  done
}
start servers --hosts="$(hosts 0 1)" --replicas=2 "${losing[@]}"
wait_for servers 'training'
address="$(sed -n 's/.* | the other machines meet at //p' "${folder}/servers.out")"
wait_for_copies
kill -KILL "$(pids_of node0 capstan_coordinator)" "$(pids_of node1 capstan_server)"
wait_for servers 'another one goes on with the job' 'server-0 ended (killed by signal 9): ' 'and another one is started in its place'
sleep 1
wait_for_copies
kill -STOP "$(pids_of node0 capstan_server)"
finish servers 0
expect_text servers 'server-0 is lost to the job, but runs: it is killed'
expect_text servers '2 servers were lost and replaced; nothing was lost'
[[ "$(value "${folder}/servers.out" "parameters' XXH3")" == "$(value "${folder}/long.out" "parameters' XXH3")" ]] ||
  failed servers 'expected the parameters of an undisturbed run'
expect_clean servers

start_long server
kill -KILL "$(pids_of node1 capstan_server)"
finish server 1
expect_text server "capstan run: host $(hosts 0) ended (exit code 1): coordinator ended"
expect_clean server

# A connection that breaks: the machine's processes end, and then the job.
start_long connection
for session in $(pids_of node1 sshd); do
  # The listener's parent is not sshd.
  [[ "$(readlink "/proc/$(ps -o ppid= -p "${session}" | tr -d ' ')/exe")" != */sshd ]] ||
    kill -KILL "${session}"
done
finish connection 1
expect_text connection "host $(hosts 1) ended (exit code 255): Connection to $(hosts 1) closed"
expect_clean connection killed
rm -rf "${folder}"/cache*/capstan/job.*

# A link that is cut: nobody answers, and nobody refuses. What is beyond ends by itself.
start_long cut
cluster_exec node1 ip link set eth0 down
finish cut 1
expect_text cut "server 1 ($(hosts 1):"
expect_text cut "but cannot on $(hosts 1): "
expect_clean cut killed
cluster_exec node1 ip link set eth0 up
# The others forget only after a while that the machine could not be reached.
for ((try = 0; try < 100; ++try)); do
  ! cluster_exec switch timeout 1 bash -c ": </dev/tcp/$(hosts 1)/22" 2>/dev/null || break
  sleep 0.1
done
rm -rf "${folder}"/cache*/capstan/job.*

# A terminal that dies.
start_long terminal
kill -KILL "${pid}"
wait "${pid}" || true
expect_clean terminal killed

expect_nothing_left
