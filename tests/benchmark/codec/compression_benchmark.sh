#!/usr/bin/env bash
# Measures a BSP step of 2 workers and 2 servers on links of a known rate with each codec, beside
# float32. Runs as root, over TCP (gRPC), in network namespaces. It removes them at the end. The jobs
# replay a network (--model=replay of `capstan run`). With --train, jobs are trained there, too.
# Usage: tests/benchmark/compression_benchmark.sh [FLAGS]
#   --model=NAME       vgg16 (default), resnet50, bert_base, bert_large, or a file of layers
#   --scale=N          tensors have N times fewer elements; 8
#   --gbit=R,...       rates of every link in each direction, in Gbit/s; 0.1
#   --codec=C,...      the measured ones, each for gradients and values; bfloat16,int8,topk:0.01.
#                      topk:R+dgc is topk:R with --dgc and --optimizer=sgd. It has no warm-up in a
#                      replay, and one of a fifth of the steps in a training
#                      auto is float32 for 10 steps, and then what it chooses
#   --compute_seconds=S  of a step; a tenth of the time in which its bytes cross a link as float32
#   --seconds=S        about how long a job is measured, after 3 steps to warm up; 10. At least 3
#                      steps, and at most 50
#   --local_steps=H    the measured ones take H local steps between two exchanges (the float32 ones do
#                      not), or the next number that --fragments divides
#   --fragments=N, --fragment_sync_delay=N
#                      with --local_steps, as of capstan run; 1, and 0
#   --job_flags=F      more flags of all jobs
#   --programs=FOLDER  of the programs; bazel-bin
#   --train            also train real jobs, with float32 and with each codec, seed after seed
#                      (float32 and one codec at 0.1 Gbit/s: 15 minutes in all)
#   --train_job=J,...  teacher: 2.1 million parameters that learn from a synthetic teacher;
#                      digits: handwritten digits, all tables encoded; teacher,digits
#   --train_steps=N    of each training; 100 of the teacher, 460 (20 epochs) of the digits
#   --seeds=N          1 ... N; 5
# Prints a JSON object a line for each rate and codec, with --train for each job as well. All other
# output is on stderr.
#   codec            as given; push_codec and pull_codec are those of the job
#   step_s           the median step of the slower worker; of its local steps, the median round / H
#   float32_step_s   the same without a codec
#   bytes_ratio      bytes as float32 / bytes as sent, both ways together, in equally many steps
#   compute_s        of a step
# With --train, the line also has medians over the seeds:
#   job, train_steps, seeds   as given
#   accuracy           of the test at the end, from 0 to 1; float32_accuracy is the same without a
#                      codec, and with momentum as the optimizer
#   seconds_to_target  from the begin of training until the training loss is first down to the
#                      target, within about 0.15 s. The target is the loss of float32, with the
#                      same seed, after two thirds of the steps. Losses are means over the latest 50
#                      steps of both workers. null: most seeds never got there
#   float32_seconds_to_target
set -euo pipefail

# The folder above has a link to this script.
folder="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
# shellcheck source=tests/benchmark/schedule/shaped_cluster.sh
source "${folder}/../schedule/shaped_cluster.sh"
# shellcheck source=tests/benchmark/codec/train_on_links.sh
source "${folder}/train_on_links.sh"
repository="$(cd "${folder}/../../.." && pwd)"

model=vgg16
scale=8
gbits=0.1
codecs=bfloat16,int8,topk:0.01
compute_s=''
seconds=10
local_steps=''
fragments=1
delay=0
local_only=()
job_flags=()
programs="${repository}/bazel-bin"
train=''
train_only=()
train_jobs=teacher,digits
train_steps=''
seeds=5

for argument in "$@"; do
  value="${argument#*=}"
  case "${argument}" in
    --help)
      print_help
      exit 0
      ;;
    --model=*) model="${value}" ;;
    --scale=*) scale="${value}" ;;
    --gbit=*) gbits="${value}" ;;
    --codec=*) codecs="${value}" ;;
    --compute_seconds=*) compute_s="${value}" ;;
    --seconds=*) seconds="${value}" ;;
    --local_steps=*) local_steps="${value}" ;;
    --fragments=*) fragments="${value}" local_only+=(--fragments) ;;
    --fragment_sync_delay=*) delay="${value}" local_only+=(--fragment_sync_delay) ;;
    --job_flags=*) read -r -a job_flags <<<"${value}" ;;
    --programs=*) programs="${value}" ;;
    --train) train=yes ;;
    --train_job=*) train_jobs="${value}" train_only+=(--train_job) ;;
    --train_steps=*) train_steps="${value}" train_only+=(--train_steps) ;;
    --seeds=*) seeds="${value}" train_only+=(--seeds) ;;
    *) fail "there is no flag ${argument}; --help lists them" 2 ;;
  esac
done

[[ -n "${train}" || -z "${train_only[*]}" ]] || fail "${train_only[0]}: matters with --train only" 2
if [[ -n "${local_steps}" ]]; then
  expect --local_steps "${local_steps}" "a whole number above 1" "([2-9]|[1-9][0-9]{1,5})"
  expect_count --fragments "${fragments}"
  [[ "${delay}" =~ ^[0-9]{1,6}$ ]] || fail "--fragment_sync_delay: expected a whole number, got '${delay}'" 2
  [[ -z "${train}" ]] || fail "--local_steps: not with --train; tests/benchmark/local_steps.py trains" 2
  local_steps=$(((local_steps + fragments - 1) / fragments * fragments))
elif [[ -n "${local_only[*]}" ]]; then
  fail "${local_only[0]}: matters with --local_steps only" 2
fi
expect_count --scale "${scale}"
expect_numbers --seconds 'a number above 0' "${seconds}"
[[ -z "${compute_s}" ]] || expect_numbers --compute_seconds 'a number above 0' "${compute_s}"
IFS=, read -r -a gbits <<<"${gbits},"
expect_numbers --gbit 'numbers above 0' "${gbits[@]}"
IFS=, read -r -a codecs <<<"${codecs},"
[[ ${#codecs[@]} -gt 0 ]] || fail '--codec: expected at least one' 2
IFS=, read -r -a train_jobs <<<"${train_jobs},"
for job in "${train_jobs[@]}"; do
  [[ "${job}" =~ ^(teacher|digits)$ ]] ||
    fail "--train_job: expected teacher or digits, got '${job}'" 2
done
[[ -z "${train_steps}" ]] || expect_count --train_steps "${train_steps}"
expect_count --seeds "${seeds}"

# The bytes of all parameters. schedule_benchmark.sh checks the other flags.
plan="$("${folder}/../schedule/schedule_benchmark.sh" --plan --model="${model}" \
  --scale="${scale}" --gbit=1 --ratio=1)"
bytes="$(sed 's/.*"lower_bound_s": \([0-9.]*\).*/\1/' <<<"${plan}" |
  awk '{ printf "%.0f", $1 * 1e9 / 8 }')"
replay="${model}"
[[ ! -f "${model}" ]] || replay="$(realpath "${model}")"

# figure KEY: a number of the job's summary.
figure() { cluster_figure "${scratch}/job" "$1"; }

# set_codec_flags CODEC WARMUP_STEPS: sets codec_flags. The warm-up is for +dgc only.
set_codec_flags() {
  local codec="${1%+dgc}"
  codec_flags=()
  [[ "${codec}" != float32 ]] || return 0
  codec_flags=(--push_codec="${codec}" --pull_codec="${codec}")
  [[ "$1" == *+dgc ]] || return 0
  codec_flags+=(--dgc --field=codec.dgc_warmup_steps="$2" --optimizer=sgd)
}

# run_job STEPS COMPUTE_S CODEC: sets step_s and bytes_ratio. With steps_of_round above 1, STEPS are
# rounds.
run_job() {
  local local_flags=()
  set_codec_flags "$3" 0
  ((steps_of_round == 1)) ||
    local_flags=(--local_steps="${steps_of_round}" --fragments="${fragments}"
      --fragment_sync_delay="${delay}")
  cluster_run "${programs}" "${scratch}/job" --model=replay --field=model.replay.layers="${replay}" \
    --field=model.replay.scale="${scale}" --field=model.replay.compute_seconds="$2" \
    --steps=$((cluster_uncounted_steps + $1)) \
    "${codec_flags[@]}" "${local_flags[@]}" "${job_flags[@]}"
  step_s="$(figure median_step_seconds)"
  step_s="$(awk -v round="${step_s}" -v steps="${steps_of_round}" 'BEGIN { print round / steps }')"
  bytes_ratio="$(awk -v steps="${steps_of_round}" '{ print steps * ($1 + $2) / ($3 + $4) }' \
    <<<"$(figure bytes_pushed_float32) $(figure bytes_pulled_float32) $(figure \
      bytes_pushed) $(figure bytes_pulled)")"
}

# steps_in STEP_S: as many as fit into --seconds, from 3 to 50.
steps_in() {
  awk -v seconds="${seconds}" -v step="$1" 'BEGIN {
    steps = int(seconds / step)
    print (steps < 3 ? 3 : (steps > 50 ? 50 : steps)) }'
}

# print_line GBIT CODEC JOB: the figures; without a JOB those of the replay alone.
print_line() {
  local codec="${2%+dgc}"
  printf '{"codec": "%s", "push_codec": "%s", "pull_codec": "%s", "gbit": %s, ' \
    "$2" "${codec}" "${codec}" "$1"
  printf '"step_s": %.6f, "float32_step_s": %.6f, "bytes_ratio": %.4g, "compute_s": %s' \
    "${step_s}" "${float32_s}" "${bytes_ratio}" "${compute}"
  if [[ -n "$3" ]]; then
    printf ', "job": "%s", "train_steps": %s, "seeds": %s, ' \
      "$3" "$(train_steps_of "$3")" "${seeds}"
    printf '"accuracy": %s, "float32_accuracy": %s, ' "${accuracy}" "${float32_accuracy[$3]}"
    printf '"seconds_to_target": %s, "float32_seconds_to_target": %s' \
      "${seconds_to_target}" "${float32_seconds_to_target[$3]}"
  fi
  echo '}'
}

# train_float32: trains all jobs, and sets float32_accuracy and float32_seconds_to_target.
train_float32() {
  local job
  for job in "${train_jobs[@]}"; do
    train_seeds "${job}" float32
    float32_accuracy[${job}]="${accuracy}"
    float32_seconds_to_target[${job}]="${seconds_to_target}"
  done
}

# run_rate GBIT
run_rate() {
  local sending compute float32_s codec job steps_of_round=1
  local -A float32_accuracy=() float32_seconds_to_target=()
  sending="$(awk -v bytes="${bytes}" -v gbit="$1" 'BEGIN { print bytes * 8 / (gbit * 1e9) }')"
  compute="${compute_s:-$(awk -v sending="${sending}" 'BEGIN { printf "%.6f", sending / 10 }')}"
  echo "${model} / ${scale}, $1 Gbit/s: float32" >&2
  run_job "$(steps_in "${sending}")" "${compute}" float32
  float32_s="${step_s}"
  [[ -z "${train}" ]] || train_float32
  steps_of_round="${local_steps:-1}"
  for codec in "${codecs[@]}"; do
    echo "${model} / ${scale}, $1 Gbit/s: ${codec}" >&2
    if ((steps_of_round > 1)); then
      run_job 3 "${compute}" "${codec}"  # A round is long.
    elif [[ "${codec}" == auto ]]; then
      run_job 40 "${compute}" "${codec}"  # 10 steps until the choice, and 30 with it.
    else
      run_job 3 "${compute}" "${codec}"  # The first estimate of a step.
      run_job "$(steps_in "${step_s}")" "${compute}" "${codec}"
    fi
    [[ -n "${train}" ]] || print_line "$1" "${codec}" ''
    for job in ${train:+"${train_jobs[@]}"}; do
      train_seeds "${job}" "${codec}"
      print_line "$1" "${codec}" "${job}"
    done
  done
}

cluster_require "${programs}"/{server/capstan_{coordinator,server},worker/capstan_worker} \
  ${train:+"${programs}/deploy/cli/capstan"}
scratch="$(mktemp -d)"
trap 'cluster_remove; rm -rf "${scratch}"' EXIT
trap 'exit 130' INT TERM HUP
for gbit in "${gbits[@]}"; do
  cluster_create "${gbit}"
  cluster_check "${gbit}" "${scratch}"
  run_rate "${gbit}"
  cluster_remove
done
