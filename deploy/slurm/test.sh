#!/usr/bin/env bash
# Tries deploy/slurm/capstan.sbatch on a cluster of Slurm on this machine, which it makes and takes
# down: three nodes, each with an address of its own. Takes 3 minutes. The last line is
# "N passed, N failed". Needs root, and installs Debian's Slurm and munge if they are missing.
# Usage: deploy/slurm/test.sh [--programs=DIR]
#   --programs=DIR   the programs to try: bin of a bundle, or bazel-bin; bazel-bin unless given, which
#                    is built if it is missing
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "${repository}"
source deploy/slurm/cluster.sh

fail() {
  echo "slurm test: $1" >&2
  echo "0 passed, 1 failed"
  exit 1
}

programs="${repository}/bazel-bin"
site="${repository}/bazel-bin/worker/python/site"
case "${1:-}" in
  --programs=?*) programs="$(realpath "${1#*=}")" ;;
  '') ;;
  *) fail "expected nothing or --programs=DIR, got $1" ;;
esac
[[ ${EUID} -eq 0 ]] || fail "expected to be root, which Slurm's daemons need; use sudo"

prepare() {
  local package missing=()
  for package in slurm-wlm munge python3; do
    [[ "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "${package}" 2>/dev/null)" == ii* ]] ||
      missing+=("${package}")
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get --quiet --yes update && apt-get --quiet --yes install --no-install-recommends \
      "${missing[@]}" || fail "cannot install ${missing[*]}; see above"
  fi
  [[ ! -x "${programs}/capstan" ]] || return 0
  if [[ ! -x "${programs}/deploy/cli/capstan" || ! -x "${programs}/worker/capstan_worker" ]]; then
    deploy/setup.sh build && bazel build --noshow_progress //deploy/cli:capstan ||
      fail "cannot build the programs; see above"
  fi
}
prepare </dev/null
[[ -e "${site}" ]] || bazel build --noshow_progress //worker/python:site </dev/null ||
  fail "cannot build the Python package; see above"

scratch="$(mktemp -d)"
# munge wants its socket to be reached by all.
chmod 755 "${scratch}"
passed=0
failed=0
finish() {
  stop_cluster
  rm -rf "${scratch}"
}
trap finish EXIT
mkdir "${scratch}/cluster"
if ! start_cluster "${scratch}/cluster" 3; then
  tail --lines=20 "${scratch}"/cluster/*.log
  fail "expected three idle nodes within ${patience} s; see above"
fi

declare -A job_of=()
digits="${repository}/deploy/jobs/digits.textproto"
saving=--checkpoint_steps=100

# submit NAME "SBATCH FLAGS" JOB FLAGS...: its log is NAME.log, its run folder NAME.
submit() {
  local name="$1" sbatch_flags
  read -ra sbatch_flags <<<"$2"
  shift 2
  job_of[${name}]="$(cd "${scratch}" && sbatch --parsable --output="${name}.log" "${sbatch_flags[@]}" \
    "${repository}/deploy/slurm/capstan.sbatch" "$@" --run_dir="${name}" --programs="${programs}")"
}

# The value of a field of `scontrol show job`.
job_value() { scontrol --oneliner show job "${job_of[$1]}" | sed -nE "s/.* $2=([^ ]+).*/\1/p"; }

has_ended() { [[ "$(job_value "$1" JobState)" =~ ^(COMPLETED|FAILED|CANCELLED|NODE_FAIL|TIMEOUT)$ ]]; }

# ends_with NAME CODE: whether the job ends in time with this exit code.
ends_with() {
  wait_until "${patience}" has_ended "$1" && [[ "$(job_value "$1" ExitCode)" == "$2:0" ]]
}

log_has() { grep --quiet --extended-regexp -- "$2" "${scratch}/$1.log"; }

# The value of a field of the summary of a run folder.
summary() { sed -nE "s/^  \"$2\": \"?([^\"]*[^\",])\"?,?$/\1/p" "${scratch}/$1/summary.json"; }

is_accurate() { awk "BEGIN { exit !($(summary "$1" test_accuracy) >= 0.95) }"; }

# process_of NAME PROGRAM: the pid of one of the job's processes.
process_of() { pgrep --full "/$2 .*--keys=${scratch}/$1/keys" | tail --lines=1; }

has_no_process() { [[ -z "$(pgrep --full -- "--keys=${scratch}/$1/keys")" ]]; }

has_checkpoint() { ls "${scratch}/$1"/checkpoints/*/manifest; }

# kill_one NAME PROGRAM: once the job has a checkpoint.
kill_one() {
  wait_until "${patience}" has_checkpoint "$1" && kill -KILL "$(process_of "$1" "$2")"
}

# kill_task NAME PROGRAM: the same for the whole task of the process. Slurm's step has one for each.
kill_task() {
  local process
  wait_until "${patience}" has_checkpoint "$1" && process="$(process_of "$1" "$2")" &&
    kill -KILL "$(ps --no-headers --format=ppid "${process}" | tr --delete ' ')" "${process}"
}

# check NAME COMMAND...: counts one case. `&&` joins commands in one string.
check() {
  local name="$1" text="$2"
  shift 2
  if (set +e; eval "$*") >/dev/null 2>&1; then
    passed=$((passed + 1))
    echo "ok      ${name}: ${text}"
  else
    failed=$((failed + 1))
    echo "FAILED  ${name}: ${text}"
    echo "state $(job_value "${name}" JobState), exit code $(job_value "${name}" ExitCode)"
    tail --lines=30 "${scratch}/${name}.log" || true
    tail --lines=3 "${scratch}/${name}"/*.log || true
  fi
}

try_digits() {
  "${capstan}" run --job="${digits}" --run_dir="${scratch}/here" >"${scratch}/here.log" 2>&1 &
  local here=$!
  submit bsp --nodes=3 "${digits}" --num_servers=2 --num_workers=2
  submit ssp "" "${digits}" --consistency=ssp --staleness=2
  check bsp "exit code 0" ends_with bsp 0
  wait "${here}" || true
  check bsp "accuracy of at least 0.95" is_accurate bsp
  hash="$(summary here parameters_xxh3)"
  check bsp "the hash of capstan run" '[[ -n "${hash}" && "$(summary bsp parameters_xxh3)" == "${hash}" ]]'
  check bsp "transport and devices in the summary" \
    '[[ "$(summary bsp transport)" == grpc ]] && grep --quiet "\"cpu (.*OpenBLAS.*)\"" "${scratch}/bsp/summary.json"'
  check bsp "processes on all nodes" \
    '[[ "$(cat "${scratch}"/bsp/*.log | sed -n "s/^---- .* on //p" | sort --unique | wc -l)" == 3 ]]'
  check bsp "keys for its owner alone" '[[ "$(stat --format=%a "${scratch}/bsp/keys")" == 700 ]]'
  check bsp "a checkpoint without being asked" has_checkpoint bsp
  check ssp "exit code 0" ends_with ssp 0
  check ssp "accuracy of at least 0.95" is_accurate ssp
}

try_failures() {
  submit no_data "" "${digits}" --data_format=csv --data_path=/nonexistent.csv
  submit few_tasks --ntasks=3 "${digits}"
  check no_data "exit code 1" ends_with no_data 1
  check no_data "the reason in the batch log" log_has no_data 'has failed: .*/nonexistent.csv'
  check no_data "a summary" '[[ "$(summary no_data outcome)" == failed ]]'
  check no_data "no restart" log_has no_data 'failed before its first step'
  check few_tasks "the number of tasks that it needs" \
    'ends_with few_tasks 1 && log_has few_tasks "give sbatch --ntasks=5"'
}

# A job that trains until it is cancelled, and another one beside it.
try_cancelled() {
  submit cancelled --nodelist=node1 "${digits}" --epochs=100000 "${saving}"
  check cancelled "trains" wait_until "${patience}" has_checkpoint cancelled
  submit beside --nodelist=node1 "${digits}" --consistency=ssp --staleness=2
  check beside "exit code 0, on the node of a job that trains on" \
    'ends_with beside 0 && [[ "$(job_value cancelled JobState)" == RUNNING &&
     "$(job_value cancelled NodeList)" == "$(job_value beside NodeList)" ]]'
  scancel "${job_of[cancelled]}"
  check cancelled "ends" wait_until "${patience}" has_ended cancelled
  check cancelled "no process is left" wait_until "${patience}" has_no_process cancelled
  check cancelled "the summary so far, within Slurm's grace time" \
    '[[ "$(summary cancelled outcome)" == interrupted && "$(summary cancelled steps)" -gt 0 ]]'
  check cancelled "no restart" '! log_has cancelled "start 2"'
}

try_losses() {
  # They do not end before they are disturbed.
  "${capstan}" run --job="${digits}" --epochs=240 --run_dir="${scratch}/long" >"${scratch}/long.log" 2>&1
  long_hash="$(summary long parameters_xxh3)"
  submit lost_worker "" "${digits}" --epochs=240 "${saving}"
  check lost_worker "a worker is killed" kill_one lost_worker capstan_worker
  submit lost_server --nodes=2 "${digits}" --epochs=240 "${saving}"
  check lost_server "a server is killed" kill_one lost_server capstan_server
  submit lost_task --nodes=2 "${digits}" --epochs=240 "${saving}"
  check lost_task "the task of a server is killed" kill_task lost_task capstan_server
  submit lost_copy --nodes=2 "${digits}" --replicas=1 --epochs=240 "${saving}"
  check lost_copy "a server without a copy is killed" kill_one lost_copy capstan_server
  submit coordinator --nodes=2 "${digits}" --epochs=240 "${saving}"
  check coordinator "the coordinator is killed" kill_one coordinator capstan_coordinator
  submit first_task --nodes=2 "${digits}" --epochs=240 "${saving}"
  check first_task "the task of the coordinator is killed" kill_task first_task capstan_coordinator
  submit replaced --nodes=2 "${digits}" --consistency=ssp --staleness=2 --epochs=240 "${saving}"
  check replaced "a worker is killed" kill_one replaced capstan_worker
  check lost_server "another server, and no second start" \
    'ends_with lost_server 0 && log_has lost_server "server-[01] on node[12] was killed by signal 9; another" &&
     [[ "$(summary lost_server servers_replaced)" == 1 ]] && ! log_has lost_server "start 2"'
  check lost_task "another server in a step of its own, and no second start" \
    'ends_with lost_task 0 && log_has lost_task "another server-[01] is started" &&
     [[ "$(summary lost_task servers_replaced)" == 1 ]] && ! log_has lost_task "start 2"'
  check coordinator "another coordinator, and no second start" \
    'ends_with coordinator 0 && log_has coordinator "coordinator on node[123] was killed by signal 9; another" &&
     ! log_has coordinator "start 2"'
  check first_task "another coordinator in a step of its own, and no second start" \
    'ends_with first_task 0 && log_has first_task "another coordinator is started" && ! log_has first_task "start 2"'
  check lost_copy "goes on from a checkpoint" \
    "ends_with lost_copy 0 && log_has lost_copy 'start 2: .* goes on from checkpoint'"
  check lost_worker "another worker, and no second start" \
    'ends_with lost_worker 0 && log_has lost_worker "killed by signal 9; another one takes its place" &&
     [[ "$(summary lost_worker workers_replaced)" == 1 ]] && ! log_has lost_worker "start 2"'
  for name in lost_worker lost_server lost_task lost_copy coordinator first_task; do
    check "${name}" "the hash of an undisturbed run" \
      '[[ -n "${long_hash}" && "$(summary '"${name}"' parameters_xxh3)" == "${long_hash}" ]]'
  done
  check lost_copy "the reason in the batch log" log_has lost_copy 'server-[01] on node[12]'
  check replaced "exit code 0 and another worker" \
    'ends_with replaced 0 && log_has replaced "killed by signal 9; another one takes its place" &&
     [[ "$(summary replaced workers_replaced)" == 1 ]]'
}

# Kills all processes of a node, without a word to Slurm's controller.
kill_node() {
  local task tasks
  mapfile -t tasks < <(grep --files-with-matches --null-data "^SLURMD_NODENAME=$1\$" \
    /proc/[0-9]*/environ 2>/dev/null | cut --delimiter=/ --fields=3)
  kill -KILL "$(pgrep --full "slurmd -D -N $1\$")"
  # Slurm's processes of the steps are the tasks' parents.
  for task in "${tasks[@]}"; do
    kill -KILL "$(ps --no-headers --format=ppid --pid "${task}" | tr --delete ' ')" || true
  done
  kill -KILL "${tasks[@]}" || true
  scontrol update "NodeName=$1" State=DOWN Reason=test
}

# node3 has the task of server-1 alone.
try_lost_node() {
  submit lost_node --nodes=3 "${digits}" --epochs=240 "${saving}"
  check lost_node "a node is lost" 'wait_until "${patience}" has_checkpoint lost_node && kill_node node3'
  check lost_node "another server on another node, and no second start" \
    'ends_with lost_node 0 && log_has lost_node "another server-1 is started" &&
     [[ "$(summary lost_node servers_replaced)" == 1 ]] && ! log_has lost_node "start 2"'
  check lost_node "the hash of an undisturbed run" \
    '[[ -n "${long_hash}" && "$(summary lost_node parameters_xxh3)" == "${long_hash}" ]]'
}

try_requeue() {
  submit requeued "" "${digits}" --epochs=240 "${saving}"
  wait_until "${patience}" has_checkpoint requeued && scontrol requeue "${job_of[requeued]}"
  # Slurm waits some minutes before it starts a requeued job.
  wait_until "${patience}" eval '[[ "$(job_value requeued JobState)" == PENDING ]]' &&
    wait_until "${patience}" scontrol update "JobId=${job_of[requeued]}" StartTime=now
  check requeued "goes on from a checkpoint" \
    "ends_with requeued 0 && log_has requeued 'start 2: .* goes on from checkpoint'"
  check requeued "the hash of an undisturbed run" \
    '[[ -n "${long_hash}" && "$(summary requeued parameters_xxh3)" == "${long_hash}" ]]'
}

# A UCX of the site's own: a copy of the one in use.
try_ucx() {
  local library
  mkdir -p "${scratch}/site/lib"
  while read -r library; do
    cp --dereference "${library}" "${scratch}/site/lib"
  done < <(ldd "$(find "${programs}"/{.,worker} -maxdepth 1 -name capstan_worker 2>/dev/null | tail -n 1)" |
    sed -nE 's|.* => (.*/libuc[pstm]\.so\.0) .*|\1|p')
  submit site_ucx --nodes=2 "${digits}" --transport=ucx "--ucx_prefix=${scratch}/site"
  submit site_ucx_ssp "" "${digits}" --consistency=ssp --transport=ucx "--ucx_prefix=${scratch}/site"
  # The loader leaves these out, and the programs have their own UCX.
  mkdir -p "${scratch}/broken/lib"
  touch "${scratch}"/broken/lib/libuc{m,s,t,p}.so.0
  submit other_ucx "" "${digits}" --consistency=ssp "--ucx_prefix=${scratch}/broken"
  submit no_ucx "" "${digits}" --ucx_prefix=/nonexistent
  check site_ucx "the exchanges go over it" \
    'ends_with site_ucx 0 && [[ "$(summary site_ucx transport)" == ucx ]]'
  check site_ucx_ssp "under ssp, too" \
    'ends_with site_ucx_ssp 0 && [[ "$(summary site_ucx_ssp transport)" == ucx ]]'
  check other_ucx "a process that uses another UCX ends the job" \
    '! ends_with other_ucx 0 && has_ended other_ucx &&
     log_has other_ucx "to use the UCX of .*/broken, but it uses /.*libucp"'
  check no_ucx "the error says what was expected" \
    'ends_with no_ucx 2 && log_has no_ucx "expected the folder above UCX.s lib, got /nonexistent"'
}

# A program in the place of the workers.
try_program() {
  local train="PYTHONPATH=${site} python3 -B ${repository}/tests/integration/linear_regression.py"
  submit program --nodes=3 "${repository}/deploy/jobs/program.textproto" --worker_command="${train}"
  submit broken --nodelist=node1 "${repository}/deploy/jobs/program.textproto" \
    --worker_command='echo "no data for rank ${RANK}, local ${LOCAL_RANK} of ${LOCAL_WORLD_SIZE}"; exit 3'
  check program "exit code 0" ends_with program 0
  check program "each worker has its rank" \
    'grep --quiet "joined as worker 0" "${scratch}/program/worker-0.log" &&
     grep --quiet "joined as worker 1" "${scratch}/program/worker-1.log"'
  check program "its loss, and no accuracy, in the summary" \
    'awk "BEGIN { exit !($(summary program test_loss) < 0.001) }" && [[ -z "$(summary program test_accuracy)" ]]'
  check broken "the reason in the batch log" \
    'ends_with broken 1 && log_has broken "worker-([01]) on node1 has ended; its log: no data for rank \\1, local \\1 of 2"'
}

# There is no GPU: the workers fail, but their logs name the devices.
try_gpus() {
  submit gpu --gpus-per-task=1 "${digits}"
  submit gpus --gpus-per-node=8 "${digits}"
  check gpu "a task's own GPU is cuda:0" \
    'ends_with gpu 1 && log_has gpu "built without CUDA" &&
     grep --quiet -- --device=cuda:0 "${scratch}/gpu/worker-0.log" &&
     grep --quiet -- --device=cuda:0 "${scratch}/gpu/worker-1.log"'
  check gpus "tasks that see all GPUs share them out" \
    'ends_with gpus 1 && grep --quiet -- --device=cuda:3 "${scratch}/gpus/worker-0.log" &&
     grep --quiet -- --device=cuda:4 "${scratch}/gpus/worker-1.log"'
}

capstan="${programs}/capstan"
[[ -x "${capstan}" ]] || capstan="${programs}/deploy/cli/capstan"
for part in digits failures cancelled losses requeue ucx program gpus lost_node; do
  began=${SECONDS}
  "try_${part}"
  echo "${part}: $((SECONDS - began)) s"
done
echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
