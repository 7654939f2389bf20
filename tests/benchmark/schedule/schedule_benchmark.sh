#!/usr/bin/env bash
# Measures a BSP step of 2 workers and 2 servers on links of a known rate, under each --schedule,
# beside its lower bound. Runs as root, over TCP (gRPC), in network namespaces. It removes them at
# the end. The jobs replay a network (--model=replay of `capstan run`).
# Usage: tests/benchmark/schedule_benchmark.sh [FLAGS]
#   --model=NAME       vgg16 (default), resnet50, bert_base, bert_large, or a file of layers
#   --scale=N          tensors have N times fewer elements; 8
#   --gbit=R           rate of every link in each direction, in Gbit/s; 2
#   --ratio=X,...      communication / compute of each point; 0.5,0.75,1,1.5,3
#   --schedules=S,...  the measured ones; tensor_fifo,slice_fifo,priority
#   --steps=N          measured steps of each, after 3 to warm up; 15
#   --job_flags=F      more flags of the job; '--slice_bytes=128K --field=scheduler.credit_bytes=1M',
#                      for links of 1 or 2 Gbit/s. '' leaves the job its defaults
#   --programs=FOLDER  of the programs; bazel-bin
#   --plan             prints the points without times; measures nothing, and needs no root
# A point takes 19 times the sum of its step times and some seconds: 40 to 50 s by default.
# Prints a JSON object a line for each point. All other output is on stderr.
#   compute_s      a step's compute time: --ratio = bytes / bandwidth / compute_s
#   lower_bound_s  max(compute_s, bytes / bandwidth). The bytes are those of all parameters, once:
#                  in each direction, a worker's link carries all gradients or all values of a
#                  step. A server's link carries as much, for 2 workers and half of the parameters.
#                  Links are full duplex. The bound leaves out the first layer's way to the servers
#                  and back, because it cannot overlap, and headers: 0.7 % of the bytes.
#   tensor_fifo_s, slice_fifo_s, priority_s  the median step of the slower worker
#   cpu_share      busy share of this machine's cores, the largest under any schedule. Near 1, the
#                  cores were the limit, not the links
set -euo pipefail

# The folder above has a link to this script.
folder="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
# shellcheck source=tests/benchmark/schedule/shaped_cluster.sh
source "${folder}/shaped_cluster.sh"
repository="$(cd "${folder}/../../.." && pwd)"

model=vgg16
scale=8
gbit=2
ratios=0.5,0.75,1,1.5,3
schedules=tensor_fifo,slice_fifo,priority
steps=15
job_flags=(--slice_bytes=128K --field=scheduler.credit_bytes=1M)
programs="${repository}/bazel-bin"
is_plan=0

for argument in "$@"; do
  value="${argument#*=}"
  case "${argument}" in
    --help)
      print_help
      exit 0
      ;;
    --model=*) model="${value}" ;;
    --scale=*) scale="${value}" ;;
    --gbit=*) gbit="${value}" ;;
    --ratio=*) ratios="${value}" ;;
    --schedules=*) schedules="${value}" ;;
    --steps=*) steps="${value}" ;;
    --job_flags=*) read -r -a job_flags <<<"${value}" ;;
    --programs=*) programs="${value}" ;;
    --plan) is_plan=1 ;;
    *) fail "there is no flag ${argument}; --help lists them" 2 ;;
  esac
done

expect_count --scale "${scale}"
expect_numbers --gbit 'a number above 0' "${gbit}"
expect_count --steps "${steps}"
IFS=, read -r -a ratios <<<"${ratios},"
expect_numbers --ratio 'numbers above 0' "${ratios[@]}"
IFS=, read -r -a schedules <<<"${schedules},"
for schedule in "${schedules[@]}"; do
  [[ "${schedule}" =~ ^(tensor_fifo|slice_fifo|priority)$ ]] ||
    fail "--schedules: expected tensor_fifo, slice_fifo or priority, got '${schedule}'" 2
done
layers="${repository}/worker/models/replay/layers/${model}.csv"
[[ -f "${layers}" ]] || layers="${model}"
[[ -f "${layers}" ]] ||
  fail "--model: expected vgg16, resnet50, bert_base, bert_large or a file, got '${model}'" 2

# Bytes of all parameters: a worker pushes them in a step.
bytes="$(awk -F, -v scale="${scale}" '
  NR > 1 { n = int($3 / scale); sum += 4 * (n < 1 ? 1 : n) } END { printf "%d", sum }' "${layers}")"

# Prints "COMPUTE_S LOWER_BOUND_S" of a ratio.
times_of() {
  awk -v bytes="${bytes}" -v gbit="${gbit}" -v ratio="$1" 'BEGIN {
    sending = bytes * 8 / (gbit * 1e9)
    compute = sending / ratio
    printf "%.6f %.6f\n", compute, (compute > sending ? compute : sending) }'
}

# Prints the busy time and the whole time of the cores so far.
cpu_time() {
  awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; print all - $5 - $6, all }' /proc/stat
}

# measure SCHEDULE COMPUTE_S: sets step_s, and raises cpu_share to the share of this job.
measure() {
  local job="${scratch}/job" before pushed expected
  before="$(cpu_time)"
  cluster_run "${programs}" "${job}" --model=replay --field=model.replay.layers="${replay}" \
    --field=model.replay.scale="${scale}" --field=model.replay.compute_seconds="$2" \
    --steps=$((cluster_uncounted_steps + steps)) --schedule="$1" "${job_flags[@]}"
  cpu_share="$(awk -v largest="${cpu_share}" '{ share = ($3 - $1) / ($4 - $2)
    printf "%.2f", (share > largest ? share : largest) }' <<<"${before} $(cpu_time)")"
  step_s="$(cluster_figure "${job}" median_step_seconds)"
  pushed="$(cluster_figure "${job}" bytes_pushed)"
  expected=$((bytes * ${#cluster_workers[@]} * (cluster_uncounted_steps + steps)))
  [[ "${pushed}" == "${expected}" ]] ||
    fail "expected the job to push ${expected} bytes, but it pushed ${pushed}"
}

# run_point RATIO
run_point() {
  local compute_s lower_bound_s schedule step_s cpu_share=0
  read -r compute_s lower_bound_s < <(times_of "$1")
  local line="{\"model\": \"$(basename "${model}" .csv)\", \"scale\": ${scale}"
  line+=", \"gbit\": ${gbit}, \"ratio\": $1"
  line+=", \"compute_s\": ${compute_s}, \"lower_bound_s\": ${lower_bound_s}"
  if ! ((is_plan)); then
    for schedule in "${schedules[@]}"; do
      echo "${model} / ${scale}, ${gbit} Gbit/s, ratio $1: ${schedule}" >&2
      measure "${schedule}" "${compute_s}"
      line+="$(printf ', "%s_s": %.6f' "${schedule}" "${step_s}")"
    done
    line+=", \"cpu_share\": ${cpu_share}"
  fi
  echo "${line}}"
}

replay="${model}"
[[ "${layers}" != "${model}" ]] || replay="$(realpath "${model}")"
if ! ((is_plan)); then
  cluster_require "${programs}"/{server/capstan_{coordinator,server},worker/capstan_worker}
  scratch="$(mktemp -d)"
  trap 'cluster_remove; rm -rf "${scratch}"' EXIT
  trap 'exit 130' INT TERM HUP
  cluster_create "${gbit}"
  cluster_check "${gbit}" "${scratch}"
fi
for ratio in "${ratios[@]}"; do run_point "${ratio}"; done
