# shellcheck shell=bash
# A cluster of Slurm on this machine, for deploy/slurm/test.sh: a controller and some nodes, each with
# an address of its own. Keeps all files in one folder and touches no other cluster. Needs root.

cluster_pids=()
# Seconds in which each wait must end. The machine may be busy.
patience=300

# Starts a program of the cluster in the foreground of its own log.
start_daemon() {
  local name="$1"
  shift
  "$@" >"${cluster}/${name}.log" 2>&1 </dev/null &
  cluster_pids+=($!)
}

# wait_until SECONDS COMMAND...: whether the command succeeds within this time.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

# Prints two ports that nobody uses, and one for each of $1 nodes.
free_ports() {
  python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.socket() for _ in range(1 + int(sys.argv[1]))]
for each in sockets:
    each.bind(("", 0))
print(*[each.getsockname()[1] for each in sockets])
PY
}

write_slurm_conf() {
  local ports=("$@") node
  mkdir -p "${cluster}/state" "${cluster}/spool"
  cat >"${SLURM_CONF}" <<CONF
ClusterName=capstan
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=${cluster}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=30
MinJobAge=600
SlurmctldPidFile=${cluster}/slurmctld.pid
StateSaveLocation=${cluster}/state
SlurmdPidFile=${cluster}/slurmd-%n.pid
SlurmdSpoolDir=${cluster}/spool/%n
CONF
  for ((node = 1; node < ${#ports[@]}; node++)); do
    echo "NodeName=node${node} NodeHostname=$(hostname -s) NodeAddr=127.0.0.$((10 + node))" \
      "Port=${ports[node]} CPUs=16 RealMemory=4000 Gres=gpu:8 State=UNKNOWN"
  done >>"${SLURM_CONF}"
  echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4" \
    >>"${SLURM_CONF}"
  # No GPU is there. Slurm only counts these devices, of the kind of /dev/null.
  for ((node = 0; node < 8; node++)); do mknod "${cluster}/gpu${node}" c 1 3; done
  echo "Name=gpu File=${cluster}/gpu[0-7]" >"${cluster}/gres.conf"
}

all_nodes_are_idle() { [[ "$(sinfo --noheader --format=%D%t 2>/dev/null)" == "$1idle" ]]; }

# start_cluster FOLDER NODES: sets SLURM_CONF.
start_cluster() {
  local nodes="$2" node ports
  cluster="$1"
  chmod 755 "${cluster}"
  export SLURM_CONF="${cluster}/slurm.conf"
  read -ra ports < <(free_ports "${nodes}")
  write_slurm_conf "${ports[@]}"
  head --bytes=1024 /dev/urandom >"${cluster}/munge.key"
  chmod 600 "${cluster}/munge.key"
  start_daemon munged munged --foreground --key-file="${cluster}/munge.key" \
    --socket="${cluster}/munge.socket" --pid-file="${cluster}/munged.pid" \
    --seed-file="${cluster}/munged.seed" --log-file="${cluster}/munged.own.log"
  wait_until "${patience}" test -S "${cluster}/munge.socket" || return 1
  start_daemon slurmctld slurmctld -D -c
  for ((node = 1; node <= nodes; node++)); do
    start_daemon "slurmd-node${node}" slurmd -D -N "node${node}"
  done
  wait_until "${patience}" all_nodes_are_idle "${nodes}"
}

stop_cluster() {
  local pid
  scancel --quiet --signal=KILL --full --state=RUNNING --user="$(id -un)" 2>/dev/null || true
  for pid in "${cluster_pids[@]}"; do kill "${pid}" 2>/dev/null || true; done
  for pid in "${cluster_pids[@]}"; do
    wait_until 5 eval "! kill -0 ${pid}" || kill -KILL "${pid}" 2>/dev/null || true
  done
}
