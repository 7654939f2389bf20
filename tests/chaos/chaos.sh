#!/usr/bin/env bash
# Kills, stops and cuts off random servers and workers of jobs with two copies of each shard, one loss
# after the other. Under BSP each job must end with the bits of an undisturbed one. In all jobs the
# recorded history must keep the consistency contract. Prints the times from a loss to the next step.
# The last line is one JSON object. The exit code is 1 if anything was wrong; then the files of the
# jobs are kept.
# Usage: tests/chaos/chaos.sh [--kills=N] [--seed=N] [--kill=WHO] [--signal=SIGNAL] [--consistency=MODE]
#                             [--codec=CODEC] [--job=JOB] [--programs=DIR] [--server=PROGRAM] [--keep=DIR]
#   --kills=N       losses in all; 100 unless given
#   --seed=N        decides who is lost when; 1 unless given. Processes take their own time, so the same
#                   seed is not the same run
#   --kill=WHO      server, worker or any; any unless given: three of four are servers
#   --signal=SIGNAL KILL, STOP, CUT or any; any unless given: one of four is stopped, and one of eight
#                   is cut off if this is root, with unshare, setpriv and iptables. Only servers are
#   --consistency=MODE
#                   bsp, ssp, async or all; all unless given: jobs of each kind in turn
#   --codec=CODEC   float32, int8, topk or all; all unless given. Under BSP nobody takes the place of a
#                   worker with a lossy codec, so only servers are lost there
#   --job=JOB       digits, updates, rows or all; all unless given. The values of updates show what each
#                   push did (capstan run --model=updates); rows are those of a sparse table
#   --programs=DIR  the programs to try: bin of a bundle, or bazel-bin; bazel-bin unless given
#   --server=PROGRAM
#                   another program for the servers, such as one with a fault on purpose
#   --keep=DIR      keep the files of all jobs in this folder, which does not exist
#
# A lost process is killed (signal 9), or stopped until the coordinator has given it up. One that is cut
# off hears all others until then, and they hear nothing of it: its packets are dropped, in a network of
# this script's own. The next loss comes at a random time after the coordinator has said that all copies
# are whole, and that another process is in the lost one's place.
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
    --programs=?*) programs="$(realpath "${value}")" ;;
    --server=?*) server_program="$(realpath "${value}")" ;;
    --keep=?*) keep="$(realpath --canonicalize-missing "${value}")" ;;
    *) usage_error "expected a flag of this script, got ${argument}" ;;
  esac
done
[[ "${kills}" =~ ^[1-9][0-9]*$ ]] || usage_error "--kills: expected a number from 1, got ${kills}"
[[ "${seed}" =~ ^[0-9]+$ ]] || usage_error "--seed: expected a number, got ${seed}"
one_of --kill "${kill}" server worker any
one_of --signal "${only_signal}" KILL STOP CUT any
[[ "${only_signal} ${kill}" != "CUT worker" ]] || usage_error "--signal=CUT: only servers are cut off"
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
elif [[ "${only_signal}" == CUT || "${only_signal}" == any ]]; then
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
if [[ -n "${server_program}" ]] || ((cuts)); then
  # capstan takes the programs beside it.
  mkdir "${scratch}/programs"
  cp "${capstan}" "${scratch}/programs/capstan"
  ln --symbolic "$(find_program server/capstan_coordinator)" "$(find_program worker/capstan_worker)" \
    "${scratch}/programs"
  server_of "${scratch}/programs"
  capstan="${scratch}/programs/capstan"
fi
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

# pids_of ROLE: of the job's servers or workers.
pids_of() {
  local pid name
  for pid in $(members); do
    { read -r name <"/proc/${pid}/comm"; } 2>/dev/null || continue
    [[ "${name}" != "capstan_$1" ]] || echo "${pid}"
  done
}

# The most steps that a worker has done, as the coordinator has heard.
steps_done() {
  tail --lines=1 "${run_dir}/progress.jsonl" 2>/dev/null | grep --only-matching '"steps_done":[0-9]*' |
    sed 's/.*://' | sort --numeric-sort | tail --lines=1
}

# num_logged TEXT: lines of the coordinator with this text.
num_logged() {
  [[ -e "${run_dir}/coordinator.log" ]] || { echo 0 && return; }
  grep --count --extended-regexp -- "$1" "${run_dir}/coordinator.log" || true
}
has_logged() { (($(num_logged "$2") >= $1)); }
has_begun() { has_logged 1 "${whole}" && (($(steps_done) > 0)); }

random() { echo $(((RANDOM * 32768 + RANDOM) % $1)); }

# In the coordinator's log.
whole="shards have two equal copies"
lost_member='(server|worker) [0-9]+ (\(.*\) )?has (ended|been silent|left)'
new_server="another server takes the place of server"
new_worker="another worker takes the place of worker"

# silence PID --append, or --delete when others are to hear it again.
silence() {
  iptables --wait "$2" OUTPUT --match owner --uid-owner $((first_user + $1)) --jump DROP
}

# lose ROLE SIGNAL: a random process, which adds to lost_here. Returns when another one is in its place,
# and copies are whole.
lose() {
  local pids pid began wholes losses news taken="${new_server}"
  [[ "$1" == server ]] || taken="${new_worker}"
  mapfile -t pids < <(pids_of "$1")
  ((${#pids[@]} > 0)) || return 0
  pid="${pids[$(random ${#pids[@]})]}"
  wholes="$(num_logged "${whole}")"
  losses="$(num_logged "${lost_member}")"
  news="$(num_logged "${taken}")"
  began=${EPOCHREALTIME}
  if [[ "$2" == CUT ]]; then
    silence "${pid}" --append
    began=${EPOCHREALTIME}
  else
    kill "-$2" "${pid}" 2>/dev/null || return 0
  fi
  lost_here=$((lost_here + 1))
  echo "$2 $1 ${began/./}000" >>"${run_dir}.losses"
  [[ "$2" == KILL ]] || await has_logged $((losses + 1)) "${lost_member}"
  case "$2" in
    STOP) kill -CONT "${pid}" 2>/dev/null || true ;;
    CUT) silence "${pid}" --delete ;;
  esac
  await has_logged $((news + 1)) "${taken}"
  [[ "$1" == worker ]] || await has_logged $((wholes + 1)) "${whole}"
}

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

# run_job NUMBER CONSISTENCY JOB CODEC KILLS: runs a job with at most KILLS losses, and adds them to
# `lost`.
run_job() {
  local job="$2 $3 $4" workers servers steps flags name role lost_here=0 who="${kill}" began=${SECONDS}
  local signal expected got
  RANDOM=$(((seed * 1000 + $1) % 32768))
  workers=$((2 + $(random $((kills < 36 ? 3 : 7)))))
  servers=$((2 + $(random 3)))
  steps=$((300 + 130 * kills_of_job))
  [[ "$3" != updates ]] || steps=$((steps / 2))
  flags_of "$2" "$3" "$4" "${workers}" "${steps}"
  [[ "$2 $4" != "bsp int8" && "$2 $4" != "bsp topk" ]] || who=server
  if [[ "$2" == bsp ]]; then
    name="${job// /-}-${workers}-${steps}"
    if [[ ! -e "${scratch}/${name}/summary.json" ]]; then
      start "${name}" "${flags[@]}" --num_servers=2
      await_end
    fi
  fi
  start "job-$1" "${flags[@]}" --num_servers="${servers}" --replicas=2 --restart=on_failure \
    --lease_seconds=2 --heartbeat_seconds=0.3 --record_history="${scratch}/job-$1.history"
  await has_begun
  while ((lost_here < $5 && $(steps_done) < steps * 3 / 4)); do
    sleep "$(printf '0.%03d' "$(random 700)")"
    role="${who}"
    if [[ "${role}" == any ]]; then
      role=server
      if (($(random 4) == 0)); then role=worker; fi
    fi
    signal=KILL
    if (($(random 4) == 0)); then signal=STOP; fi
    if ((cuts && $(random 8) == 0)) && [[ "${role}" == server ]]; then signal=CUT; fi
    [[ "${only_signal}" == any ]] || signal="${only_signal}"
    [[ "${signal}" != CUT ]] || role=server
    lose "${role}" "${signal}"
    runs "${run_pid}" || break
  done
  await_end
  if [[ "$2" == bsp ]]; then
    expected="$(results_of "${scratch}/${name}")" || fail "expected results of the undisturbed job"
    got="$(results_of "${run_dir}" || true)"
    if [[ "${got}" == "${expected}" ]]; then
      [[ "${same_bits}" == false ]] || same_bits=true
    else
      same_bits=false
      wrong=1
      echo "FAILED  expected ${expected}, got ${got}"
    fi
  fi
  "${judge}" "${run_dir}.history" "${run_dir}.losses" >"${run_dir}.judged" ||
    fail "the history cannot be judged"
  if grep --after-context=4 "^first violation" "${run_dir}.judged"; then wrong=1; fi
  sed --quiet 's/^loss //p' "${run_dir}.judged" >>"${scratch}/times"
  grep --extended-regexp "^(violations|lost_updates|doubled_updates) " "${run_dir}.judged" \
    >>"${scratch}/counts"
  lost=$((lost + lost_here))
  echo "job $1: ${job}, ${workers} workers, ${servers} servers, ${lost_here} losses," \
    "$(sed --quiet 's/^exchanges //p' "${run_dir}.judged") exchanges, $((SECONDS - began)) s"
  if ((wrong > 0)); then
    echo "all files are in ${scratch}; this was chaos.sh --kills=${kills} --seed=${seed}"
  elif [[ -z "${keep}" ]]; then
    rm -rf "${run_dir}" "${run_dir}".*
  fi
}

# times_of SIGNAL ROLE: sorted.
times_of() {
  sed --quiet --regexp-extended "s/^$1 $2 ([0-9.]+)$/\1/p" "${scratch}/times" | sort --numeric-sort
}

# quantile PERCENT SIGNAL ROLE: null if there are none.
quantile() {
  times_of "$2" "$3" | awk -v percent="$1" '
    { times[NR] = $1 }
    END {
      if (NR == 0) { print "null"; exit }
      rank = int((NR * percent + 99) / 100)
      print times[rank < 1 ? 1 : rank]
    }'
}

# sum_of NAME
sum_of() { awk -v name="$1" '$1 == name { sum += $2 } END { print sum + 0 }' "${scratch}/counts"; }

print_figures() {
  local role signal count
  for role in server worker; do
    for signal in KILL STOP CUT; do
      count="$(times_of "${signal}" "${role}" | wc --lines)"
      ((count == 0)) || echo "${signal} ${role}: ${count} times, median" \
        "$(quantile 50 "${signal}" "${role}") s, longest $(quantile 100 "${signal}" "${role}") s"
    done
  done
  role=server
  [[ "${kill}" != worker ]] || role=worker
  printf '{"kills": %s, "same_bits": %s, "lost_updates": %s, "doubled_updates": %s, ' \
    "${lost}" "${same_bits}" "$(sum_of lost_updates)" "$(sum_of doubled_updates)"
  printf '"violations": %s, "p50_recovery_s": %s, "p99_recovery_s": %s, "p50_stop_s": %s, ' \
    "$(sum_of violations)" "$(quantile 50 KILL "${role}")" "$(quantile 99 KILL "${role}")" \
    "$(quantile 50 STOP "${role}")"
  printf '"p99_stop_s": %s, "p50_cut_s": %s, "worst_recovery_s": %s, "seed": %s}\n' \
    "$(quantile 99 STOP "${role}")" "$(quantile 50 CUT "${role}")" \
    "$(quantile 100 KILL "${role}")" "${seed}"
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
touch "${scratch}/times" "${scratch}/counts"
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
