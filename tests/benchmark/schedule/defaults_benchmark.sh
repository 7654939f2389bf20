#!/usr/bin/env bash
# Compares a job without flags of the scheduler, which measures its links and chooses slices and credit
# for them, with a grid search, on links of a known rate. Runs as root, over TCP (gRPC), in network
# namespaces. It removes them at the end. The jobs replay a network.
# Usage: tests/benchmark/defaults_benchmark.sh [FLAGS]
#   --model=NAME        vgg16 (default), resnet50, bert_base, bert_large, or a file of layers
#   --scale=N           tensors have N times fewer elements; 8. A job measures its links if it has more
#                       than 10 MB
#   --gbit=R            rate of every link in each direction, in Gbit/s; 1
#   --ratio=X           communication / compute; 1
#   --slices=N,...      of the grid, in bytes; 65536,131072,262144,1048576
#   --credits=N,...     of the grid, in bytes; 524288,1048576,2097152,4194304
#   --steps=N           measured steps of each job, after 3 to warm up; 15
#   --programs=FOLDER   of the programs; bazel-bin
# Prints a JSON object on one line. All other output is on stderr.
#   grid         each point's slice_bytes, credit_bytes and step_s, the median step of the slower worker.
#                These jobs choose their partition for the links, too
#   best         the fastest of them, measured again after the grid
#   chosen_s     the step of the job without flags, the mean of a job before the grid and one after it
#   over_best    chosen_s / best step_s
#   lower_bound_s  as of schedule_benchmark.sh
set -euo pipefail

# The folder above has a link to this script.
folder="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
# shellcheck source=tests/benchmark/schedule/shaped_cluster.sh
source "${folder}/shaped_cluster.sh"
repository="$(cd "${folder}/../../.." && pwd)"

model=vgg16
scale=8
gbit=1
ratio=1
slices=65536,131072,262144,1048576
credits=524288,1048576,2097152,4194304
steps=15
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
    --slices=*) slices="${value}" ;;
    --credits=*) credits="${value}" ;;
    --steps=*) steps="${value}" ;;
    --programs=*) programs="${value}" ;;
    *) fail "there is no flag ${argument}; --help lists them" 2 ;;
  esac
done
IFS=, read -r -a slices <<<"${slices},"
IFS=, read -r -a credits <<<"${credits},"
for value in "${slices[@]}"; do expect_count --slices "${value}"; done
for value in "${credits[@]}"; do expect_count --credits "${value}"; done
expect_count --steps "${steps}"

# {"model": ..., "compute_s": C, "lower_bound_s": L}. schedule_benchmark.sh checks the other flags.
plan="$("${folder}/schedule_benchmark.sh" --plan --model="${model}" --scale="${scale}" \
  --gbit="${gbit}" --ratio="${ratio}")"
compute_s="$(sed 's/.*"compute_s": \([0-9.]*\).*/\1/' <<<"${plan}")"
replay="${model}"
[[ ! -f "${model}" ]] || replay="$(realpath "${model}")"

# measure FLAGS...: sets step_s to the median step of a job with these flags.
measure() {
  cluster_run "${programs}" "${scratch}/job" --model=replay --field=model.replay.layers="${replay}" \
    --field=model.replay.scale="${scale}" --field=model.replay.compute_seconds="${compute_s}" \
    --steps=$((cluster_uncounted_steps + steps)) "$@"
  step_s="$(cluster_figure "${scratch}/job" median_step_seconds)"
  echo "${*:-without flags}: ${step_s} s" >&2
}
point_flags() { echo "--slice_bytes=$1" "--field=scheduler.credit_bytes=$2"; }

# quotient A B: A / B.
quotient() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }

cluster_require "${programs}"/{server/capstan_{coordinator,server},worker/capstan_worker}
scratch="$(mktemp -d)"
trap 'cluster_remove; rm -rf "${scratch}"' EXIT
trap 'exit 130' INT TERM HUP
cluster_create "${gbit}"
cluster_check "${gbit}" "${scratch}"

measure
before_s="${step_s}"
grid=()
best_s=''
for slice in "${slices[@]}"; do
  for credit in "${credits[@]}"; do
    # shellcheck disable=SC2046
    measure $(point_flags "${slice}" "${credit}")
    grid+=("{\"slice_bytes\": ${slice}, \"credit_bytes\": ${credit}, \"step_s\": ${step_s}}")
    if awk -v a="${step_s}" -v b="${best_s:-inf}" 'BEGIN { exit !(b == "inf" || a < b) }'; then
      best_s="${step_s}"
      best_slice="${slice}" best_credit="${credit}"
    fi
  done
done
# The least of many measurements is too small by chance. One more of that point is not.
# shellcheck disable=SC2046
measure $(point_flags "${best_slice}" "${best_credit}")
best_s="${step_s}"
measure
chosen_s="$(awk -v a="${before_s}" -v b="${step_s}" 'BEGIN { printf "%.6f", (a + b) / 2 }')"

all="$(printf ', %s' "${grid[@]}")"
printf '%s, "grid": [%s], "best": {"slice_bytes": %d, "credit_bytes": %d, "step_s": %s}, "chosen_s": %s, "over_best": %s}\n' \
  "${plan%\}}" "${all:2}" "${best_slice}" "${best_credit}" "${best_s}" "${chosen_s}" \
  "$(quotient "${chosen_s}" "${best_s}")"
