# shellcheck shell=bash
# Sourced by tests of jobs on machines node0 to node3, with links of 1 Gbit/s. As root they leave
# nothing behind. Without root, their reports say so.

source "${TEST_SRCDIR}/capstan/tests/benchmark/schedule/network_test.sh"
source "${TEST_SRCDIR}/capstan/tests/benchmark/schedule/shaped_cluster.sh"
# shellcheck disable=SC2034
cluster_workers=(node0 node1 node2 node3)
# shellcheck disable=SC2034
cluster_servers=()

# Ends all processes on the machines, and removes them.
remove_machines() {
  local namespace pid
  while read -r namespace _; do
    [[ "${namespace}" == "${cluster_name}"-* ]] || continue
    for pid in $(ip netns pids "${namespace}"); do kill -KILL "${pid}" 2>/dev/null || true; done
  done < <(ip netns list)
  cluster_remove
}

# In a subshell, because cluster_require ends its shell.
require_machines() (cluster_require "${capstan}")

# create_machines: makes them, until the end of the test.
create_machines() {
  end_without_namespaces require_machines
  trap remove_machines EXIT
  cluster_create 1
}

# Fails if the test leaves machines behind.
expect_nothing_left() {
  remove_machines
  ! ip netns list | grep "^${cluster_name}-" || { echo "left behind" && exit 1; }
}

# pids_of NODE PROGRAM: its processes there.
pids_of() {
  local pid
  for pid in $(ip netns pids "${cluster_name}-$1"); do
    [[ "$(readlink "/proc/${pid}/exe")" != */"$2" ]] || echo "${pid}"
  done
}

# value OUTPUT LABEL: a row of the summary there, such as "97.22 %".
value() { sed -n "s/^\(.* | \)\?  $2 *//p" "$1"; }
