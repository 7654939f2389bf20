#!/usr/bin/env bash
# Kills and stops random workers of jobs under BSP that run with --restart=on_failure. Each job must end
# with the results of an undisturbed run: the parameters' hash, or for rows of a sparse table the test
# loss to its last digit. Another process does a lost worker's step again, and nothing starts again; with
# int8 or topk pushes the job goes on from its checkpoint. Prints the times from a loss to the
# replacement. The last line is "N passed, N failed, N skipped", in jobs.
# Usage: tests/chaos/workers.sh [--kills=N] [--seed=N] [--programs=DIR] [--python=PATH]
#   --kills=N       number of lost workers that are replaced; 300 unless given
#   --seed=N        decides who is lost when; 1 unless given
#   --programs=DIR  the programs to try: bin of a bundle, or bazel-bin; bazel-bin unless given
#   --python=PATH   has PyTorch, for jobs of a PyTorch program; python3, Debian's, or that of
#                   deploy/torch_test.sh unless given. They need bazel build //worker/python:site, too
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# A line in the place of a job's: nothing was tried.
usage_error() {
  echo "workers.sh: $1; --help says more" >&2
  exit 2
}

kills=300
seed=1
programs="${PWD}/bazel-bin"
pythons=(python3 /usr/bin/python3 ~/.cache/capstan/torch/bin/python)
for argument in "$@"; do
  case "${argument}" in
    --help)
      sed -n '2,/^set /{/^# \?/s///p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --kills=*) kills="${argument#*=}" ;;
    --seed=*) seed="${argument#*=}" ;;
    --programs=?*) programs="$(realpath "${argument#*=}")" ;;
    --python=?*) pythons=("${argument#*=}") ;;
    *) usage_error "expected --kills=N, --seed=N, --programs=DIR or --python=PATH, got ${argument}" ;;
  esac
done
[[ "${kills}" =~ ^[1-9][0-9]*$ ]] || usage_error "--kills: expected a number from 1, got ${kills}"
[[ "${seed}" =~ ^[0-9]+$ ]] || usage_error "--seed: expected a number, got ${seed}"
# In the tests of Bazel, the programs lie beside this script.
for capstan in "${programs}"/{capstan,deploy/cli/capstan} "${PWD}/deploy/cli/capstan"; do
  [[ ! -x "${capstan}" ]] || break
done
[[ -x "${capstan}" ]] ||
  usage_error "--programs: expected a folder with capstan; run: bazel build //deploy/cli:capstan"

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
# shellcheck source=deploy/checks.sh
source deploy/checks.sh

kills_of_job=$((kills < 36 ? (kills + 2) / 3 : 12))
restart=(--restart=on_failure --lease_seconds=2 --heartbeat_seconds=0.3)
replaced="nothing was done twice"  # in the coordinator's log

# flags_of MODEL: sets the job's flags, and its number of steps.
flags_of() {
  steps=$((1000 + 300 * kills_of_job))
  [[ "$1" != PyTorch ]] || steps=$((steps / 4))
  flags=(--job=deploy/jobs/digits.textproto --num_workers=3 --steps="${steps}")
  case "$1" in
    digits) ;;
    clicks) flags[0]=--job=deploy/jobs/agaricus_sparse.textproto ;;
    PyTorch) flags[0]="--worker_command=exec ${python} ${PWD}/tests/chaos/torch_program.py ${steps}" ;;
    *) flags+=(--push_codec="$1" --field=codec.min_bytes=0) ;;
  esac
}

fail() {
  echo "$1"
  [[ -z "${run_dir:-}" ]] || tail --lines=20 "${run_dir}.out" "${run_dir}"/*.log
  exit 1
}

# start NAME FLAGS...: a job in the background, as run_pid, which ends with this shell.
start() {
  run_dir="${scratch}/$1"
  "${capstan}" run --run_dir="${run_dir}" "${@:2}" >"${run_dir}.out" 2>&1 &
  run_pid=$!
  # Its processes end with it.
  trap 'kill -KILL "${run_pid}" 2>/dev/null || true' EXIT
}

runs() {
  local state
  state="$(sed 's/.*) //; s/ .*//' "/proc/${run_pid}/stat" 2>/dev/null)" && [[ "${state}" != Z ]]
}

# await SECONDS COMMAND...: until it succeeds. Fails if it takes longer, or if the job ends before.
await() {
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    runs || fail "the job ended before: ${*:2}"
    ((SECONDS < end)) || fail "waited for $1 s: ${*:2}"
    sleep 0.01
  done
}

results_of() { grep --extended-regexp '"(parameters_xxh3|test_loss)"' "$1/summary.json"; }

# end_well [NAME]: waits for the job's good end, with the results of the job NAME.
end_well() {
  local end=$((SECONDS + 120)) code=0
  while runs; do
    ((SECONDS < end)) || fail "the job does not end"
    sleep 0.05
  done
  wait "${run_pid}" || code=$?
  ((code == 0)) || fail "expected exit code 0, got ${code}"
  results_of "${run_dir}" || fail "expected results in the summary"
  [[ -z "${1:-}" || "$(results_of "${run_dir}")" == "$(results_of "${scratch}/$1")" ]] ||
    fail "expected the results of the job $1"
}

# The pids of the job's workers.
worker_pids() {
  local pid name
  for pid in $(<"/proc/${run_pid}/task/${run_pid}/children"); do
    { read -r name <"/proc/${pid}/comm"; } 2>/dev/null || continue
    [[ "${name}" != capstan_worker && "${name}" != python* ]] || echo "${pid}"
  done
}

# The most steps that a worker has done, as the coordinator has heard.
steps_done() {
  tail --lines=1 "${run_dir}/progress.jsonl" | grep --only-matching '"steps_done":[0-9]*' |
    sed 's/.*://' | sort --numeric-sort | tail --lines=1
}
has_begun() { [[ -s "${run_dir}/progress.jsonl" ]] && (($(steps_done) > 0)); }

# has_logged COUNT TEXT FILE
has_logged() { (($(num_lines "$2" "${run_dir}$3") >= $1)); }

# num_lines TEXT FILE: with this text.
num_lines() {
  [[ -e "$2" ]] || { echo 0 && return; }
  grep --count --fixed-strings -- "$1" "$2" || true
}

random() { echo $(((RANDOM * 32768 + RANDOM) % $1)); }

pause() { sleep "$(printf '0.%03d' "$1")"; }

# lose MODEL SIGNAL NUMBER: so many workers are lost at once, and replaced.
lose() {
  local pids before began=${EPOCHREALTIME}
  before="$(num_lines "${replaced}" "${run_dir}/coordinator.log")"
  mapfile -t pids < <(worker_pids | shuf --head-count="$3" --random-source=<(yes "${RANDOM}"))
  began=${EPOCHREALTIME}
  kill "-$2" "${pids[@]}"
  await 60 has_logged $((before + ${#pids[@]})) "${replaced}" /coordinator.log
  echo "$1-$2 $(((${EPOCHREALTIME/./} - ${began/./}) / 1000))" >>"${scratch}/times"
  lost=$((lost + ${#pids[@]}))
}

# lose_workers MODEL JOB COUNT
lose_workers() {
  local lost=0 signal number flags steps
  RANDOM=$(((seed * 1000 + $2) % 32768))
  flags_of "$1"
  start "$1-$2" "${flags[@]}" "${restart[@]}"
  await 60 has_begun
  while ((lost < $3)); do
    # Often right after the last one came.
    if (($(random 3) > 0)); then pause "$(random 400)"; fi
    (($(steps_done) < steps * 3 / 4)) || break
    signal=KILL
    if (($(random 10) == 0)); then signal=STOP; fi
    number=1
    if (($3 - lost > 1 && $(random 8) == 0)); then number=2; fi
    lose "$1" "${signal}" "${number}"
  done
  end_well "$1"
  echo "${lost}" >"${scratch}/lost"
  grep --quiet --line-regexp --extended-regexp "${lost} workers? replaced" "${run_dir}.out" ||
    fail "expected ${lost} workers to be replaced, and nothing to start again"
}

# lose_worker_with_codec CODEC: kills a worker once the job has a checkpoint.
lose_worker_with_codec() {
  local pids flags steps has_restarted="; restart 1 from step "
  flags_of "$1"
  start "$1-killed" "${flags[@]}" "${restart[@]}" --checkpoint_dir="${scratch}/checkpoints-$1" \
    --checkpoint_steps=400
  await 60 has_logged 1 "is complete" /coordinator.log
  mapfile -t pids < <(worker_pids)
  kill -KILL "${pids[RANDOM % ${#pids[@]}]}"
  await 60 has_logged 1 "${has_restarted}" .out
  end_well "$1"
  grep "pushes by a codec leave residuals.*${has_restarted}" "${run_dir}.out"
}

# undisturbed MODEL
undisturbed() {
  local flags steps
  flags_of "$1"
  start "$1" "${flags[@]}"
  end_well
}

# times_of MODELS-SIGNAL TEXT: prints the median and the longest.
times_of() {
  sed --quiet --regexp-extended "s/^$1 //p" "${scratch}/times" | sort --numeric-sort | awk -v text="$2" '
    { times[NR] = $1 }
    END { if (NR > 0) print text ": " NR " times, median " times[int((NR + 1) / 2)] " ms, longest " times[NR] " ms" }'
}

echo "seed ${seed}"
touch "${scratch}/times"
models=(digits clicks)
export PYTHONPATH="${programs}/worker/python/site:${PWD}/worker/python/site"
for python in "${pythons[@]}"; do
  ! "${python}" -c 'import torch, capstan' 2>"${scratch}/log" || break
  python=
done
if [[ -n "${python}" ]]; then
  models+=(PyTorch)
else
  skip "PyTorch: no ${pythons[*]} imports torch, and capstan from ${PYTHONPATH}"
fi
codecs=(int8 topk:0.1)
for model in "${models[@]}" "${codecs[@]}"; do
  check "${model}, undisturbed" undisturbed "${model}"
done
left=${kills}
for ((job = 1; left > 0 && failed == 0; job++)); do
  count=$((left < kills_of_job ? left : kills_of_job))
  model="${models[job % ${#models[@]}]}"
  check "${model}, up to ${count} lost workers" lose_workers "${model}" "${job}" "${count}"
  ((failed > 0)) || left=$((left - $(<"${scratch}/lost")))
done
for codec in "${codecs[@]}"; do
  check "${codec}, a killed worker" lose_worker_with_codec "${codec}"
done
echo "$((kills - left)) lost workers in $((job - 1)) jobs. From the loss until all places were taken"
times_of "(digits|clicks)-KILL" "  killed"
times_of "(digits|clicks)-STOP" "  stopped (lease 2 s)"
times_of PyTorch-KILL "  killed, with the start of a PyTorch program"
times_of PyTorch-STOP "  stopped, with the start of a PyTorch program"
print_counts
