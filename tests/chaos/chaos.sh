#!/usr/bin/env bash
# Kills, stops and cuts off random servers, workers and coordinators of jobs with two copies of each
# shard, one loss after the other. Under BSP each job must end with the bits of an undisturbed one. In all
# jobs the recorded history must keep the consistency contract. Prints the times from a loss to the next
# step. The last line is one JSON object. The exit code is 1 if anything was wrong; then the files of the
# jobs are kept.
# Usage: tests/chaos/chaos.sh [--kills=N] [--seed=N] [--kill=WHO] [--signal=SIGNAL] [--consistency=MODE]
#                             [--codec=CODEC] [--job=JOB] [--replicas=N] [--programs=DIR]
#                             [--server=PROGRAM] [--keep=DIR]
#   --kills=N       losses in all; 100 unless given
#   --seed=N        decides who is lost when; 1 unless given. Processes take their own time, so the same
#                   seed is not the same run
#   --kill=WHO      server, worker, coordinator or any; any unless given: one of six is a coordinator, and
#                   three of four others are servers
#   --signal=SIGNAL KILL, STOP, CUT or any; any unless given: one of four is stopped, and one of eight
#                   is cut off if this is root, with unshare, setpriv and iptables. Only servers are
#   --consistency=MODE
#                   bsp, ssp, async or all; all unless given: jobs of each kind in turn
#   --codec=CODEC   float32, int8, topk or all; all unless given. Under BSP nobody takes the place of a
#                   worker with a lossy codec, so only servers are lost there
#   --job=JOB       digits, updates, rows or all; all unless given. The values of updates show what each
#                   push did (capstan run --model=updates); rows are those of a sparse table
#   --replicas=N    1 or 2 copies of each shard; 2 unless given. With 1 only coordinators can be lost
#   --programs=DIR  the programs to try: bin of a bundle, or bazel-bin; bazel-bin unless given
#   --server=PROGRAM
#                   another program for the servers, such as one with a fault on purpose
#   --keep=DIR      keep the files of all jobs in this folder, which does not exist
#
# A lost process is killed (signal 9), or stopped until the coordinator has given it up. One that is cut
# off hears all others until then, and they hear nothing of it: its packets are dropped, in a network of
# this script's own. The next loss comes at a random time after the coordinator has said that all copies
# are whole, and that another process is in the lost one's place.
# A coordinator keeps its state. One that was killed starts again, at once or up to 3 s later. Sometimes
# it is killed once more while it starts. With --kill=any, a server is sometimes killed in the same moment
# (BOTH). While a coordinator is stopped, another one takes over at another address. The first one must
# then end by itself. No member may be lost because its coordinator was.
#
# A recovery is the time from the signal to the end of the first step after it: a worker has the answers
# to all its pushes of the step, and sent all of them after the signal. A step pushes to all slices, and
# each server has some or copies of some, so it needs the lost server or its successor. (A step of rows
# needs those of its samples, which are on all servers.) If a worker was lost, it is a step of the next
# process in its place. All times are those in the workers' histories.
#   kills                          losses, of both kinds
#   same_bits                      false: a job under BSP has ended with other bits; null: none ran
#   lost_updates, doubled_updates  updates of slices that a reply must have but lacks, or has twice, by the
#                                  rules of capstan check
#   violations                     of any rule of the contract
#   p50_recovery_s, p99_recovery_s, worst_recovery_s
#                                  of killed servers; with --kill=worker of killed workers
#   p50_stop_s, p99_stop_s         the same of stopped ones: a lease of 2 s must end first
#   p50_cut_s                      the median time of servers that were cut off
#   p50_coordinator_s, worst_coordinator_s
#                                  from the kill of a coordinator that starts again at once until it has
#                                  answered capstan status
#   longest_step_s, undisturbed_longest_step_s
#                                  with --kill=coordinator: the longest time between the begins of two
#                                  steps of a worker, in these jobs and in the same ones without losses,
#                                  which run in turn with them
# The p99 of fewer than 100 times is the longest.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage_error() {
  echo "chaos.sh: $1; --help says more" >&2
  exit 2
}

# one_of FLAG VALUE VALUES...
one_of() {
  local value
  for value in "${@:3}"; do [[ "$2" != "${value}" ]] || return 0; done
  usage_error "$1: expected ${*:3}, got $2"
}

kills=100
seed=1
kill=any
only_signal=any
only_consistency=all
only_codec=all
only_job=all
replicas=2
programs="${PWD}/bazel-bin"
server_program=
keep=
for argument in "$@"; do
  value="${argument#*=}"
  case "${argument}" in
    --help)
      sed -n '2,/^set /{/^# \?/s///p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --kills=*) kills="${value}" ;;
    --seed=*) seed="${value}" ;;
    --kill=*) kill="${value}" ;;
    --signal=*) only_signal="${value}" ;;
    --consistency=*) only_consistency="${value}" ;;
    --codec=*) only_codec="${value}" ;;
    --job=*) only_job="${value}" ;;
    --replicas=*) replicas="${value}" ;;
    --programs=?*) programs="$(realpath "${value}")" ;;
    --server=?*) server_program="$(realpath "${value}")" ;;
    --keep=?*) keep="$(realpath --canonicalize-missing "${value}")" ;;
    *) usage_error "expected a flag of this script, got ${argument}" ;;
  esac
done
[[ "${kills}" =~ ^[1-9][0-9]*$ ]] || usage_error "--kills: expected a number from 1, got ${kills}"
[[ "${seed}" =~ ^[0-9]+$ ]] || usage_error "--seed: expected a number, got ${seed}"
one_of --kill "${kill}" server worker coordinator any
one_of --signal "${only_signal}" KILL STOP CUT any
[[ "${only_signal}" != CUT || "${kill}" == server || "${kill}" == any ]] ||
  usage_error "--signal=CUT: only servers are cut off"
one_of --replicas "${replicas}" 1 2
[[ "${replicas} ${kill}" != "1 "* || "${kill}" == coordinator ]] ||
  usage_error "--replicas=1: expected --kill=coordinator, as others can be lost only with copies"
one_of --consistency "${only_consistency}" bsp ssp async all
one_of --codec "${only_codec}" float32 int8 topk all
one_of --job "${only_job}" digits updates rows all

# Whether servers can be cut off: each has a user of its own, whose packets are dropped.
can_cut() {
  ((EUID == 0)) && unshare --net bash -c \
    'ip link set lo up && setpriv --reuid=100000 --clear-groups true &&
      iptables --append OUTPUT --match owner --uid-owner 100000 --jump DROP' &>/dev/null
}
cuts=0
if [[ "${CHAOS_NETWORK-}" == own ]]; then
  cuts=1
  ip link set lo up
elif [[ "${only_signal}" == CUT || "${only_signal} ${kill}" == any\ @(server|any) ]]; then
  if can_cut; then CHAOS_NETWORK=own exec unshare --net tests/chaos/chaos.sh "$@"; fi
  [[ "${only_signal}" == any ]] || usage_error "--signal=CUT: expected root, unshare, setpriv and iptables"
fi
# find_program NAME: in the tests of Bazel, the programs lie beside this script.
find_program() {
  local path
  for path in "${programs}/${1##*/}" "${programs}/$1" "${PWD}/$1"; do
    if [[ -x "${path}" && ! -d "${path}" ]]; then echo "${path}" && return; fi
  done
  usage_error "--programs: expected a folder with $1; run: bazel build //${1%/*}:${1##*/}"
}
capstan="$(find_program deploy/cli/capstan)"
judge="$(find_program tests/chaos/judge_history)"

if [[ -z "${keep}" ]]; then
  scratch="$(mktemp -d)"
else
  mkdir "${keep}"
  scratch="${keep}"
fi
first_user=100000  # a server's is this and its process id

# server_of FOLDER: a program for the servers, in this folder. Those that can be cut off cannot read what
# is the user's alone.
server_of() {
  local program="${server_program:-$(find_program server/capstan_server)}"
  if ((cuts == 0)); then
    ln --symbolic "${program}" "$1/capstan_server"
    return
  fi
  chmod a+x "${scratch}"
  mkdir "$1/server"
  cp --dereference "${program}" "$1/server/capstan_server"
  cat >"$1/capstan_server" <<END
#!/usr/bin/env bash
exec setpriv --reuid=\$((${first_user} + \$\$)) --clear-groups --pdeathsig KILL "$1/server/capstan_server" "\$@"
END
  chmod a+x "$1/capstan_server"
}
# capstan takes the programs beside it.
mkdir --parents "${scratch}/programs/coordinator"
cp "${capstan}" "${scratch}/programs/capstan"
ln --symbolic "$(find_program worker/capstan_worker)" "${scratch}/programs"
ln --symbolic "$(find_program server/capstan_coordinator)" "${scratch}/programs/coordinator"
ln --symbolic "${PWD}/tests/chaos/kept_coordinator.sh" "${scratch}/programs/capstan_coordinator"
server_of "${scratch}/programs"
capstan="${scratch}/programs/capstan"
run_pid=
wrong=0

# members: process ids of the running job.
members() { cat "/proc/${run_pid}/task/${run_pid}/children" 2>/dev/null || true; }

# Ends all processes that this script has started.
end_all() {
  local pids
  if [[ -n "${run_pid}" ]]; then
    read -r -a pids <<<"$(members)"
    kill -KILL "${run_pid}" "${pids[@]}" 2>/dev/null || true
  fi
  if ((wrong == 0)) && [[ -z "${keep}" ]]; then rm -rf "${scratch}"; fi
}
trap end_all EXIT
trap 'exit 1' INT TERM

fail() {
  wrong=1
  echo "FAILED  $1"
  if [[ -n "${run_dir:-}" ]]; then
    tail --lines=20 "${run_dir}.out" "${run_dir}"/*.log || true
  fi
  echo "all files are in ${scratch}; this was chaos.sh --kills=${kills} --seed=${seed}"
  print_figures
  exit 1
}

# start NAME FLAGS...: a job in the background, as run_pid.
start() {
  run_dir="${scratch}/$1"
  "${capstan}" run --quiet --run_dir="${run_dir}" "${@:2}" >"${run_dir}.out" 2>&1 &
  run_pid=$!
}

runs() {
  local state
  state="$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)" && [[ "${state}" != Z ]]
}

# await COMMAND...: until it succeeds, or the job ends.
await() {
  local end=$((SECONDS + 120))
  until "$@" || ! runs "${run_pid}"; do
    ((SECONDS < end)) || fail "waited for 120 s: $*"
    sleep 0.01
  done
}

# Also judges the history of a job that failed.
await_end() {
  local end=$((SECONDS + 300)) code=0
  while runs "${run_pid}"; do
    ((SECONDS < end)) || fail "the job does not end"
    sleep 0.05
  done
  wait "${run_pid}" || code=$?
  run_pid=
  if ((code != 0)); then
    wrong=1
    echo "FAILED  expected exit code 0, got ${code}"
    tail --lines=5 "${run_dir}.out"
  fi
}

# The parameters' hash, or for rows of a sparse table the test loss to its last digit.
results_of() { grep --extended-regexp '"(parameters_xxh3|test_loss)"' "$1/summary.json"; }

source tests/chaos/losses.sh
source tests/chaos/figures.sh

# flags_of CONSISTENCY JOB CODEC WORKERS STEPS: sets the job's flags.
flags_of() {
  flags=(--num_workers="$4" --steps="$5" --consistency="$1")
  case "$2" in
    digits) flags+=(--job=deploy/jobs/digits.textproto --slice_bytes=8K) ;;
    updates) flags+=(--model=updates --field=model.updates.compute_seconds=0.03) ;;
    rows) flags+=(--job=deploy/jobs/agaricus_sparse.textproto --shard_count=16) ;;
  esac
  [[ "$1" != ssp ]] || flags+=(--staleness=2)
  case "$3" in
    float32) ;;
    topk) flags+=(--push_codec=topk:0.1 --field=codec.min_bytes=0) ;;
    *) flags+=(--push_codec="$3" --field=codec.min_bytes=0) ;;
  esac
}

# choose_loss: sets role and signal.
choose_loss() {
  role="${who}"
  if [[ "${role}" == any ]]; then
    role=server
    if ((RANDOM % 4 == 0)); then role=worker; fi
    if ((RANDOM % 6 == 0)); then role=coordinator; fi
  fi
  signal=KILL
  if ((RANDOM % 4 == 0)); then signal=STOP; fi
  if ((cuts && RANDOM % 8 == 0)) && [[ "${role}" == server ]]; then signal=CUT; fi
  [[ "${only_signal}" == any ]] || signal="${only_signal}"
  [[ "${signal}" != CUT ]] || role=server
  if [[ "${who} ${role} ${signal}" == "any coordinator KILL" ]] && ((lost_here + 2 <= most_here)) &&
    ((RANDOM % 2 == 0)); then
    role=server
    signal=BOTH
  fi
}

# judge_job: checks the history of the job that has ended.
judge_job() {
  touch "${run_dir}.losses"
  "${judge}" "${run_dir}.history" "${run_dir}.losses" >"${run_dir}.judged" ||
    fail "the history cannot be judged"
  if grep --after-context=4 "^first violation" "${run_dir}.judged"; then wrong=1; fi
  sed --quiet 's/^loss //p' "${run_dir}.judged" >>"${scratch}/times"
  grep --extended-regexp "^(violations|lost_updates|doubled_updates) " "${run_dir}.judged" \
    >>"${scratch}/counts"
}

judged() { sed --quiet "s/^$1 //p" "${run_dir}.judged"; }

# compare_results NAME: with those of this undisturbed job.
compare_results() {
  local expected got
  expected="$(results_of "${scratch}/$1")" || fail "expected results of the undisturbed job"
  got="$(results_of "${run_dir}" || true)"
  if [[ "${got}" == "${expected}" ]]; then
    [[ "${same_bits}" == false ]] || same_bits=true
  else
    same_bits=false
    wrong=1
    echo "FAILED  expected ${expected}, got ${got}"
  fi
}

# expect_all_members: none was lost.
expect_all_members() {
  if grep --extended-regexp '"(servers|workers)_lost": [1-9]' "${run_dir}/summary.json"; then
    wrong=1
    echo "FAILED  expected no lost members"
  fi
}

# run_undisturbed NUMBER NAME FLAGS...: the same job without losses. Where steps are compared, it runs as
# the other one does. Otherwise one such job with this name is enough.
run_undisturbed() {
  if [[ "${kill}" == coordinator ]]; then
    rm -rf "${scratch:?}/$2"
    start "$2" "${@:3}" --record_history="${scratch}/$2.history"
    await_end
    judge_job
    echo "undisturbed $1 $(judged longest_step_s)" >>"${scratch}/steps"
    rm -rf "${scratch:?}/$2.history"
  elif [[ ! -e "${scratch}/$2/summary.json" ]]; then
    start "$2" "${flags[@]}" --num_servers=2
    await_end
  fi
}

# run_job NUMBER CONSISTENCY JOB CODEC KILLS: runs a job with at most KILLS losses, and adds them to
# `lost`.
run_job() {
  local job="$2 $3 $4" workers servers steps flags all_flags name role signal who="${kill}"
  local lost_here=0 most_here="$5" began=${SECONDS}
  RANDOM=$(((seed * 1000 + $1) % 32768))
  workers=$((2 + RANDOM % (kills < 36 ? 3 : 7)))
  servers=$((2 + RANDOM % 3))
  steps=$((300 + 130 * kills_of_job))
  [[ "$3" != updates ]] || steps=$((steps / 2))
  flags_of "$2" "$3" "$4" "${workers}" "${steps}"
  all_flags=("${flags[@]}" --num_servers="${servers}" --replicas="${replicas}" --restart=on_failure
    --lease_seconds=2 --heartbeat_seconds=0.3)
  # Workers with a lossy codec have no successors.
  [[ "$2 $4" != "bsp "@(int8|topk) || "${kill}" != @(any|worker) ]] || who=server
  name="${job// /-}-${workers}-${steps}"
  if [[ "$2" == bsp || "${kill}" == coordinator ]]; then
    run_undisturbed "$1" "${name}" "${all_flags[@]}"
  fi
  start "job-$1" "${all_flags[@]}" --record_history="${scratch}/job-$1.history"
  await has_begun
  while ((lost_here < most_here && $(steps_done) < steps * 3 / 4)); do
    pause $((RANDOM % 700))
    choose_loss
    if [[ "${role}" == coordinator ]]; then
      lose_coordinator "${signal}"
    else
      lose "${role}" "${signal}"
    fi
    runs "${run_pid}" || break
  done
  await_end
  [[ "$2" != bsp ]] || compare_results "${name}"
  judge_job
  if [[ "${kill}" == coordinator ]]; then
    expect_all_members
    echo "disturbed $1 $(judged longest_step_s)" >>"${scratch}/steps"
  fi
  lost=$((lost + lost_here))
  echo "job $1: ${job}, ${workers} workers, ${servers} servers, ${lost_here} losses," \
    "$(judged exchanges) exchanges, $((SECONDS - began)) s$(steps_text "$1")"
  if ((wrong > 0)); then
    echo "all files are in ${scratch}; this was chaos.sh --kills=${kills} --seed=${seed}"
  elif [[ -z "${keep}" ]]; then
    rm -rf "${run_dir}" "${run_dir}".*
  fi
}

kinds=()
for kind in "bsp digits float32" "ssp updates float32" "async updates topk" "bsp rows float32" \
  "bsp digits int8" "ssp updates topk" "async updates float32" "ssp rows float32" "bsp digits topk" \
  "async digits int8" "bsp updates float32" "async rows float32" "ssp digits int8"; do
  read -r consistency job codec <<<"${kind}"
  [[ "${only_consistency}" == all || "${only_consistency}" == "${consistency}" ]] || continue
  [[ "${only_job}" == all || "${only_job}" == "${job}" ]] || continue
  [[ "${only_codec}" == all || "${only_codec}" == "${codec}" ]] || continue
  kinds+=("${kind}")
done
((${#kinds[@]} > 0)) ||
  usage_error "there is no job of ${only_consistency}, ${only_job} and ${only_codec}"

if ((cuts)); then echo "seed ${seed}, with cuts"; else echo "seed ${seed}, without cuts"; fi
touch "${scratch}/times" "${scratch}/counts" "${scratch}/steps"
kills_of_job=$((kills < 36 ? (kills + 3) / 4 : 9))
lost=0
same_bits=null
for ((number = 1; lost < kills && wrong == 0; number++)); do
  left=$((kills - lost))
  read -r consistency job codec <<<"${kinds[(number - 1) % ${#kinds[@]}]}"
  run_job "${number}" "${consistency}" "${job}" "${codec}" $((left < kills_of_job ? left : kills_of_job))
done
print_figures
((wrong == 0))
