#!/usr/bin/env bash
# Measures the wait of a new slice of the first layer, while slices of another layer fill a link of a
# known rate. Runs as root, in network namespaces. It removes them at the end.
# Usage: tests/benchmark/preemption_benchmark.sh [FLAGS]
#   --gbit=R            rate of every link in each direction, in Gbit/s; 1
#   --programs=FOLDER   of the programs; bazel-bin
#   others              go to preemption_benchmark, as --credit_bytes=, --slice_bytes=, --tries=
# Prints a JSON object a line, for slice_fifo, for priority, and for priority with one connection:
#   slice_s     time of a slice's bytes on the link
#   alone_s     median round trip of a slice on the idle link, to the server and back
#   wait_p50_s, wait_max_s  round trip on the full link, less alone_s
#   bound_s     (credit + one slice) / bandwidth: under priority, these bytes go before a slice. On
#               one connection it waits for no more. On several, later slices on the other
#               connections take a share of the link.
set -euo pipefail

# The folder above has a link to this script.
folder="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
# shellcheck source=tests/benchmark/schedule/shaped_cluster.sh
source "${folder}/shaped_cluster.sh"

gbit=1
programs="$(cd "${folder}/../../.." && pwd)/bazel-bin"
flags=()
for argument in "$@"; do
  case "${argument}" in
    --help)
      print_help
      exit 0
      ;;
    --gbit=*) gbit="${argument#*=}" ;;
    --programs=*) programs="${argument#*=}" ;;
    --*=*) flags+=("${argument}") ;;
    *) fail "expected --flag=value, got ${argument}; --help says more" 2 ;;
  esac
done
[[ "${gbit}" =~ ^[0-9]+(\.[0-9]+)?$ && "${gbit}" =~ [1-9] ]] ||
  fail "--gbit: expected a number above 0, got '${gbit}'" 2

benchmark="${programs}/tests/benchmark/schedule/preemption_benchmark"
cluster_require "${benchmark}"
scratch="$(mktemp -d)"
trap 'cluster_remove; rm -rf "${scratch}"' EXIT
trap 'exit 130' INT TERM HUP
cluster_create "${gbit}"
cluster_check "${gbit}" "${scratch}"
server="$(cluster_address server0):4000"
cluster_start server0 "${scratch}/server.log" "${benchmark}" --serve="${server}" "${flags[@]}"
# Fails if the server ends: it has no reason to.
measure() {
  local ended='' status=0
  # exec: cluster_kill ends this process.
  (exec ip netns exec "${cluster_name}-worker0" "${benchmark}" --connect="${server}" \
    --gbit="${gbit}" "${flags[@]}" "$@") &
  cluster_pids+=($!)
  wait -n -p ended "${cluster_pids[@]}" || status=$?
  [[ "${ended:-}" == "${cluster_pids[1]}" && "${status}" == 0 ]] ||
    fail "a process failed; the server's log: $(tail -n 3 "${scratch}/server.log")"
  cluster_pids=("${cluster_pids[0]}")
}
measure --schedule=slice_fifo
measure --schedule=priority
measure --schedule=priority --grpc_connections=1
