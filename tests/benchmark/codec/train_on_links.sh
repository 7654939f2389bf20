# shellcheck shell=bash disable=SC2034,SC2154
# Trains on the links of shaped_cluster.sh, and measures how long a loss takes to be reached.
# Sourced by compression_benchmark.sh, whose variables are used here: programs, scratch, seeds,
# train_steps, job_flags.

# The jobs of codec_accuracy.py. A float32 step of the teacher takes about a second at 0.1 Gbit/s.
declare -A train_flags=(
  [teacher]='--data_format=synthetic --field=data.synthetic.samples=50000 --field=data.synthetic.features=8
    --field=data.synthetic.teacher_hidden=8 --field=data.synthetic.classes=2 --hidden=1024,2000 --batch_size=32
    --learning_rate=0.01'
  [digits]=''
)
declare -A train_default_steps=([teacher]=100 [digits]=460)
declare -A train_targets=()  # the loss of each job and seed

# train_steps_of JOB
train_steps_of() { echo "${train_steps:-${train_default_steps[$1]}}"; }

# train_follow FOLDER: prints the time and the job's status about every 0.1 s, until the job has
# left its summary in FOLDER.
train_follow() {
  local status
  while [[ ! -e "$1/summary.json" ]]; do
    if status="$(cluster_exec switch "${programs}/deploy/cli/capstan" status \
      --coordinator="${cluster_coordinator}" 2>/dev/null)"; then
      printf 'at %s\n%s\n' "${EPOCHREALTIME}" "${status}"
    fi
    sleep 0.1
  done
}

# train_course: the output of train_follow as lines "SECONDS STEPS LOSS": the time since training
# began, and the means over the workers. A worker's loss is its mean over 50 steps.
train_course() {
  awk -v workers="${#cluster_workers[@]}" '
    $1 == "at" { now = $2; count = steps = loss = 0 }
    /^job .*: training/ && !began { began = now }
    $1 ~ /^worker-/ && $6 == "loss" {
      steps += $3 + 0  # of STEPS/TOTAL
      loss += $7
      if (++count == workers) printf "%.3f %.1f %.6f\n", now - began, steps / count, loss / count
    }'
}

# train_once JOB CODEC SEED: leaves the folder train and the file course in ${scratch}.
train_once() {
  local steps flags
  steps="$(train_steps_of "$1")"
  read -r -d '' -a flags <<<"${train_flags[$1]}" || true
  set_codec_flags "$2" $((steps / 5))
  # All tables of the digits are small.
  [[ "$1" != digits || "$2" == float32 ]] || flags+=(--field=codec.min_bytes=0)
  echo "$1, $2, seed $3, ${steps} steps" >&2
  rm -rf "${scratch}/train"
  train_follow "${scratch}/train" >"${scratch}/statuses" &
  cluster_pids+=($!)
  cluster_run "${programs}" "${scratch}/train" --seed="$3" --steps="${steps}" \
    --heartbeat_seconds=0.1 "${flags[@]}" "${codec_flags[@]}" "${job_flags[@]}"
  # The last status may be of some steps before the end.
  {
    train_course <"${scratch}/statuses"
    echo "$(cluster_figure "${scratch}/train" seconds) ${steps}" \
      "$(cluster_figure "${scratch}/train" train_loss)"
  } >"${scratch}/course"
}

# train_set_target JOB SEED: the target is the loss of this course after two thirds of the steps.
train_set_target() {
  train_targets[$1.$2]="$(awk -v steps="$(train_steps_of "$1")" '
    $2 >= steps * 2 / 3 { print $3; exit }' "${scratch}/course")"
  [[ -n "${train_targets[$1.$2]}" ]] ||
    fail "$1 ended before its loss was read; give it more steps by --train_steps"
}

# train_seconds_to LOSS: the time at which the course first has it; inf if it never does.
train_seconds_to() {
  awk -v target="$1" '$3 <= target { print $1; found = 1; exit } END { if (!found) print "inf" }' \
    "${scratch}/course"
}

# train_median VALUE...: null for inf.
train_median() {
  printf '%s\n' "$@" | sort --general-numeric-sort | awk '
    { values[NR] = $1 }
    END {
      low = values[int((NR + 1) / 2)]
      high = values[int(NR / 2) + 1]
      print (high == "inf" ? "null" : (low + high) / 2)
    }'
}

# train_seeds JOB CODEC: sets accuracy and seconds_to_target, medians over the seeds. float32 comes
# first, because it sets the targets.
train_seeds() {
  local seed accuracies=() times=()
  for ((seed = 1; seed <= seeds; ++seed)); do
    train_once "$1" "$2" "${seed}"
    [[ "$2" != float32 ]] || train_set_target "$1" "${seed}"
    accuracies+=("$(cluster_figure "${scratch}/train" test_accuracy)")
    times+=("$(train_seconds_to "${train_targets[$1.${seed}]}")")
    echo "  accuracy ${accuracies[-1]}, ${times[-1]} s to ${train_targets[$1.${seed}]}" >&2
  done
  accuracy="$(train_median "${accuracies[@]}")"
  seconds_to_target="$(train_median "${times[@]}")"
}
