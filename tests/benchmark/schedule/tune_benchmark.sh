#!/usr/bin/env bash
# Compares the choice of a job with scheduler.tune with a grid search, on links of a known rate. Runs as
# root, over TCP (gRPC), in network namespaces. It removes them at the end. The jobs replay a network.
# Usage: tests/benchmark/tune_benchmark.sh [FLAGS]
#   --model=NAME        vgg16 (default), resnet50, bert_base, bert_large, or a file of layers
#   --scale=N           tensors have N times fewer elements; 32
#   --gbit=R            rate of every link in each direction, in Gbit/s; 1
#   --ratio=X           communication / compute; 1
#   --slice_bytes=N     262144
#   --partitions=N,...  of the grid, in bytes; 262144,1048576,4194304,16777216
#   --credits=N,...     of the grid, in bytes; 262144,1048576,4194304,16777216
#   --steps=N           measured steps of each point of the grid, after 3 to warm up; 15
#   --tune_steps=N      steps of the tuned job; 400
#   --programs=FOLDER   of the programs; bazel-bin
# Prints a JSON object on one line. All other output is on stderr.
#   grid         each point's partition_bytes, credit_bytes and step_s, the median step of the
#                slower worker
#   best         the fastest of them
#   tuned        the choice of tuning. Its step_s comes from a job of its own, as a grid point's
#   over_best    tuned step_s / best step_s
#   in_job_s     the step with the choice in the tuned job itself. The reason has its other results
#   lower_bound_s  as of schedule_benchmark.sh
set -euo pipefail

# The folder above has a link to this script.
folder="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
# shellcheck source=tests/benchmark/schedule/shaped_cluster.sh
source "${folder}/shaped_cluster.sh"
repository="$(cd "${folder}/../../.." && pwd)"

model=vgg16
scale=32
gbit=1
ratio=1
slice_bytes=262144
partitions=262144,1048576,4194304,16777216
credits=262144,1048576,4194304,16777216
steps=15
tune_steps=400
programs="${repository}/bazel-bin"

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
    --ratio=*) ratio="${value}" ;;
    --slice_bytes=*) slice_bytes="${value}" ;;
    --partitions=*) partitions="${value}" ;;
    --credits=*) credits="${value}" ;;
    --steps=*) steps="${value}" ;;
    --tune_steps=*) tune_steps="${value}" ;;
    --programs=*) programs="${value}" ;;
    *) fail "there is no flag ${argument}; --help lists them" 2 ;;
  esac
done
IFS=, read -r -a partitions <<<"${partitions},"
IFS=, read -r -a credits <<<"${credits},"
for value in "${partitions[@]}"; do expect_count --partitions "${value}"; done
for value in "${credits[@]}"; do expect_count --credits "${value}"; done
expect_count --slice_bytes "${slice_bytes}"
expect_count --steps "${steps}"
expect_count --tune_steps "${tune_steps}"

# {"model": ..., "compute_s": C, "lower_bound_s": L}. schedule_benchmark.sh checks the other flags.
plan="$("${folder}/schedule_benchmark.sh" --plan --model="${model}" --scale="${scale}" \
  --gbit="${gbit}" --ratio="${ratio}")"
compute_s="$(sed 's/.*"compute_s": \([0-9.]*\).*/\1/' <<<"${plan}")"
replay="${model}"
[[ ! -f "${model}" ]] || replay="$(realpath "${model}")"

# run_job STEPS FLAGS...: into ${scratch}/job.
run_job() {
  local steps="$1"
  shift
  cluster_run "${programs}" "${scratch}/job" --model=replay --field=model.replay.layers="${replay}" \
    --field=model.replay.scale="${scale}" --field=model.replay.compute_seconds="${compute_s}" \
    --steps="${steps}" \
    --slice_bytes="${slice_bytes}" "$@"
}

# measure PARTITION CREDIT: sets step_s.
measure() {
  run_job $((cluster_uncounted_steps + steps)) --field=scheduler.partition_bytes="$1" \
    --field=scheduler.credit_bytes="$2"
  step_s="$(cluster_figure "${scratch}/job" median_step_seconds)"
  echo "partition $1, credit $2: ${step_s} s" >&2
}

# point PARTITION CREDIT STEP_S: as JSON.
point() { printf '{"partition_bytes": %d, "credit_bytes": %d, "step_s": %.6f}' "$1" "$2" "$3"; }

# chosen KEY: a value of the choice of tuning.
chosen() {
  sed -n '/"chosen": {/,/}/s/^ *"'"$1"'": \([0-9.e+-]*\),\?$/\1/p' "${scratch}/job/summary.json"
}

cluster_require "${programs}"/{server/capstan_{coordinator,server},worker/capstan_worker}
scratch="$(mktemp -d)"
trap 'cluster_remove; rm -rf "${scratch}"' EXIT
trap 'exit 130' INT TERM HUP
cluster_create "${gbit}"
cluster_check "${gbit}" "${scratch}"

run_job "${tune_steps}" --field=scheduler.tune=on
tuned_partition="$(chosen partition_bytes)"
tuned_credit="$(chosen credit_bytes)"
in_job_s="$(chosen step_seconds)"
reason="$(sed -n 's/^ *"reason": "\(.*\)",\?$/\1/p' "${scratch}/job/summary.json")"
[[ -n "${tuned_partition}" ]] ||
  fail "tuning has not ended in ${tune_steps} steps; give it more by --tune_steps"
echo "tuned: partition ${tuned_partition}, credit ${tuned_credit}: ${reason}" >&2

grid=()
best_s=''
for partition in "${partitions[@]}"; do
  for credit in "${credits[@]}"; do
    measure "${partition}" "${credit}"
    grid+=("$(point "${partition}" "${credit}" "${step_s}")")
    if awk -v a="${step_s}" -v b="${best_s:-inf}" 'BEGIN { exit !(b == "inf" || a < b) }'; then
      best_s="${step_s}"
      best="${grid[-1]}"
    fi
  done
done
measure "${tuned_partition}" "${tuned_credit}"
tuned="$(point "${tuned_partition}" "${tuned_credit}" "${step_s}")"

all="$(printf ', %s' "${grid[@]}")"
printf '%s, "slice_bytes": %d, "grid": [%s], "best": %s, "tuned": %s, "over_best": %s, "in_job_s": %.6f, "reason": "%s"}\n' \
  "${plan%\}}" "${slice_bytes}" "${all:2}" "${best}" "${tuned}" \
  "$(awk -v a="${step_s}" -v b="${best_s}" 'BEGIN { printf "%.3f", a / b }')" "${in_job_s}" "${reason}"
