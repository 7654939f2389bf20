#!/usr/bin/env bash
# What capstan.sbatch makes of its flags and of Slurm's variables. Programs in place of Slurm's and of
# Capstan's write down their flags; test.sh has the real ones.
set -euo pipefail

script="${TEST_SRCDIR}/capstan/deploy/slurm/capstan.sbatch"
cd "${TEST_TMPDIR}"
mkdir tools programs
ln -s "${TEST_SRCDIR}/capstan/deploy/cli/capstan" programs/capstan
echo 'name: "short"' >job.textproto

# program PATH TEXT
program() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
program tools/scontrol '
  case "$*" in
    "show hostnames "*) echo "$3" ;;
    requeue*) echo "$*" >requeued ;;
    *) for i in 1 2; do echo "NodeName=node$i NodeAddr=10.0.0.$i"; done ;;
  esac'
program tools/squeue 'echo RUNNING'
program tools/scancel 'true'
program tools/hostname 'echo 192.168.7.1 192.168.7.2'
# Runs the tasks one after the other, on two nodes in turn. A task with 137 was killed. If `ends_of_srun`
# exists, its lines are what srun says after that.
program tools/srun '
  echo "$*" >>srun.flags
  tasks=1
  while [[ "$1" == --* ]]; do
    [[ "$1" != --ntasks=* ]] || tasks="${1#*=}"
    shift
  done
  for ((i = 0; i < tasks; i++)); do
    export SLURM_STEP_ID=0 SLURM_PROCID=$i SLURM_LOCALID=$((i / 2)) SLURMD_NODENAME=node$((1 + i % 2))
    export SLURM_GTIDS="$(seq --separator=, $((i % 2)) 2 $((tasks - 1)))"
    "$@" || {
      code=$?
      end="Exited with exit code ${code}"
      [[ ${code} != 137 ]] || end=Killed
      if [[ -e node_fails ]]; then
        rm node_fails
        echo "srun: error: Node failure on ${SLURMD_NODENAME}"
      fi
      echo "srun: error: ${SLURMD_NODENAME}: task $i: ${end}"
    }
  done
  if [[ -e ends_of_srun ]]; then
    cat ends_of_srun
    rm ends_of_srun
  fi'
program programs/capstan_worker 'echo "$0 $*" >>"programs/flags"'
# Its first lives end as `server_ends` says: the process with this signal, or the whole task.
program programs/capstan_server '
  echo "$0 $*" >>"programs/flags"
  read -r victim signal <server_ends || exit 0
  sed -i 1d server_ends
  [[ "${victim}" == process ]] && kill "-${signal}" $$ || kill "-${signal}" "${PPID}"'
touch server_ends
# Its first lives end as `coordinator_ends` says, the next ones as `outcomes` does, with a checkpoint each.
touch coordinator_ends
program programs/capstan_coordinator '
  echo "$0 $*" >>"programs/flags"
  for argument in "$@"; do
    [[ "${argument}" != --port_file=* ]] || echo 0.0.0.0:4321 >"${argument#*=}"
    [[ "${argument}" != --summary_json=* ]] || summary="${argument#*=}"
  done
  if read -r victim signal <coordinator_ends; then
    sed -i 1d coordinator_ends
    [[ "${victim}" == process ]] && exec bash -c "kill -${signal} \$\$"
    exec kill "-${signal}" "${PPID}"
  fi
  read -r outcome steps <outcomes
  sed -i 1d outcomes
  checkpoints="${summary%/start-*}/checkpoints"
  mkdir -p "${checkpoints}/checkpoint-00000$(wc -l <outcomes)"
  ((steps == 0)) || touch "${checkpoints}/checkpoint-00000$(wc -l <outcomes)/manifest"
  printf "{\n  \"outcome\": \"%s\",\n  \"steps\": %s\n}\n" "${outcome}" "${steps}" >"${summary}"'

# run_job OUTCOMES EXIT_CODE FLAGS...: the output is in `output`.
run_job() {
  local exit_code=0
  rm -rf runs srun.flags programs/flags
  printf '%b' "$1" >outcomes
  PATH="${PWD}/tools:${PATH}" SLURM_JOB_ID="${job_id:-7}" SLURM_JOB_NODELIST='node[1-2]' SLURM_NTASKS=5 \
    bash "${script}" job.textproto --programs=programs "${@:3}" >output 2>&1 || exit_code=$?
  expect_equal "$2" "${exit_code}"
}
expect_equal() { [[ "$1" == "$2" ]] || { echo "expected $1, got $2" && cat output && exit 1; }; }
# expect FILE TEXT...: the file has each text.
expect() {
  local text
  for text in "${@:2}"; do
    grep --quiet --fixed-strings -- "${text}" "$1" || { echo "$1: no ${text}" && cat output "$1" && exit 1; }
  done
}

run_job 'finished 9\n' 0
expect srun.flags "--ntasks=5 --distribution=cyclic"
expect programs/flags "capstan_coordinator --job=${PWD}/runs/slurm-7/job.textproto --listen=0.0.0.0:0" \
  "capstan_server --coordinator=10.0.0.1:4321" "--advertise_host=10.0.0.2" "--device=cpu"
expect runs/slurm-7/job.textproto "${PWD}/runs/slurm-7/checkpoints" "seconds: 60"
expect runs/slurm-7/keys.log "node1, 10.0.0.1, node2, 10.0.0.2"
expect_equal 700 "$(stat --format=%a runs/slurm-7/keys)"
expect_equal 1 "$(ls -d runs/slurm-7/start-* | wc -l)"

# Two tasks of each node see three GPUs.
CUDA_VISIBLE_DEVICES=4,5,6 run_job 'finished 9\n' 0
expect programs/flags "--device=cuda:1" "--device=cuda:2"
CUDA_VISIBLE_DEVICES=4,5,6 run_job 'finished 9\n' 0 --device=cpu
expect programs/flags "--device=cpu"

# A program takes the place of the workers. node1 has two of them, node2 has one.
run_job 'finished 9\n' 0 --model=program --num_servers=1 --num_workers=3 --worker_command='
  echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE" >>programs/flags
  echo "also rank $CAPSTAN_RANK, meets at $MASTER_ADDR:$MASTER_PORT"
  echo "for $CAPSTAN_COORDINATOR with $CAPSTAN_KEYS, unbuffered $PYTHONUNBUFFERED"'
expect programs/flags "rank 0 of 3, 0 of 2" "rank 1 of 3, 0 of 1" "rank 2 of 3, 1 of 2"
expect runs/slurm-7/worker-0.log "also rank 0, meets at 10.0.0.1:29507"
expect runs/slurm-7/worker-1.log "also rank 1, meets at 10.0.0.1:29507"
expect runs/slurm-7/worker-2.log "also rank 2, meets at 10.0.0.1:29507"
expect runs/slurm-7/worker-2.log "for 10.0.0.1:4321 with ${PWD}/runs/slurm-7/keys, unbuffered 1"
if grep capstan_worker programs/flags; then exit 1; fi
run_job '' 2 --worker_command=true
expect output "--worker_command: expected a job for programs, got the model MLP"
run_job '' 2 --model=program
expect output "--worker_command: expected the command of the workers"
run_job '' 2 --model=program --worker_command=true --device=cuda
expect output "cannot matter to programs of your own"

SLURM_CPUS_PER_TASK=3 run_job 'finished 9\n' 0 --container_image=site+capstan --network=10.1.0.0/16 \
  --checkpoint_steps=50
expect srun.flags "--cpus-per-task=3" "--container-image=site+capstan" \
  "--container-mounts=${PWD}/runs/slurm-7,${PWD}/programs,${PWD}"
expect programs/flags "--network=10.1.0.0/16"
expect runs/slurm-7/keys.log "192.168.7.1, 192.168.7.2"
if grep '^  seconds' runs/slurm-7/job.textproto; then exit 1; fi

# A failed job goes on from the checkpoint of its last life, as long as --restarts allows.
run_job 'failed 5\nfinished 9\n' 0
expect runs/slurm-7/job.textproto "allow_other_bits: false" "replace_seconds: 300"
expect output "start 2: 2 servers, 2 workers, goes on from checkpoint-000001"
expect programs/flags "--restore=${PWD}/runs/slurm-7/checkpoints/checkpoint-000001"
run_job 'failed 5\nfailed 6\nfinished 9\n' 1 --restarts=1
expect output "start 2:" "it does not start again: --restarts=1 allows no more"
run_job 'finished 9\n' 0 --restarts=0
if grep --extended-regexp 'allow_other_bits|replace_seconds' runs/slurm-7/job.textproto; then exit 1; fi
run_job 'finished 9\n' 0 --registration_seconds=50
expect runs/slurm-7/job.textproto "replace_seconds: 50"
run_job 'finished 9\n' 0 --replace_seconds=7
expect runs/slurm-7/job.textproto "replace_seconds: 7"
run_job 'finished 9\n' 0 --allow_other_bits
expect runs/slurm-7/job.textproto "allow_other_bits: true"
run_job 'failed 0\nfinished 9\n' 1
expect output "it failed before its first step, and a restart may only repeat that"

# A server with copies is started again: in its task, or in a step of its own.
expect runs/slurm-7/job.textproto "replicas: 2"
expect srun.flags "--no-kill"
run_job 'finished 9\n' 0 --replicas=1
expect runs/slurm-7/job.textproto "replicas: 1"
run_job 'finished 9\n' 0 --transport=ucx
if grep replicas runs/slurm-7/job.textproto; then exit 1; fi
echo 'process KILL' >server_ends
run_job 'finished 9\n' 0
expect output "server-0 on node2 was killed by signal 9; another one takes its place"
expect_equal 3 "$(grep --count capstan_server programs/flags)"
echo 'task KILL' >server_ends
run_job 'finished 9\n' 0
expect output "server-0 on node2 has ended; its log: " "another server-0 is started"
expect srun.flags "--overlap --exact --ntasks=1"
expect_equal 3 "$(grep --count capstan_server programs/flags)"
expect_equal 1 "$(ls -d runs/slurm-7/start-* | wc -l)"
# The tasks of a lost node end with it. srun may tell of the tasks alone.
touch node_fails
echo 'task KILL' >server_ends
run_job 'finished 9\n' 0 --consistency=ssp
expect output "server-0 on node2 has ended; its log: " "another server-0 is started"
expect_equal 1 "$(grep --count "another server-0 is started" output)"
expect_equal 3 "$(grep --count capstan_server programs/flags)"
# With a worker or a server without a copy on it, Slurm has to find another node.
program tools/sleep 'true'
touch node_fails
echo 'task KILL' >server_ends
run_job 'failed 5\n' 1
expect output "a node is lost, so the job is queued again"
expect requeued "requeue 7"
rm tools/sleep
# srun tells of tasks that end at the same time in one line. A worker among them ends this start.
echo 'srun: error: node1: tasks 2,4: Exited with exit code 137' >ends_of_srun
run_job 'failed 5\nfinished 9\n' 0
expect output "server-1 on node1 has ended" "worker-1 on node1 has ended" \
  "the job has failed: worker-1 on node1 is lost" "start 2: "
# A lost coordinator is started again where it was, with the state of this start: in its task, or in a
# step of its own.
for victim in process task; do
  echo "${victim} KILL" >coordinator_ends
  run_job 'finished 9\n' 0
  expect_equal 2 "$(grep --count capstan_coordinator programs/flags)"
  expect_equal 2 "$(grep --count "capstan_coordinator .*--state=${PWD}/runs/slurm-7/start-1/state" programs/flags)"
  expect programs/flags "--listen=0.0.0.0:0 " "--listen=0.0.0.0:4321 "
  expect_equal 1 "$(ls -d runs/slurm-7/start-* | wc -l)"
  if [[ "${victim}" == process ]]; then
    expect output "coordinator on node1 was killed by signal 9; another one takes its place"
  else
    expect output "coordinator on node1 has ended; its log: " "another coordinator is started"
    expect srun.flags "--ntasks=1 --nodes=1 --no-kill --mpi=none --export=ALL --nodelist=node1"
  fi
done
# Not for ever.
for _ in {1..10}; do echo 'process SEGV'; done >coordinator_ends
run_job 'finished 9\n' 1
expect_equal 10 "$(grep --count capstan_coordinator programs/flags)"
expect output "the coordinator has left no summary" "it failed before its first step"
# Each start has a state of its own.
run_job 'failed 5\nfinished 9\n' 0
expect programs/flags "--state=${PWD}/runs/slurm-7/start-1/state" "--state=${PWD}/runs/slurm-7/start-2/state"
# Without copies, all starts again, if it may.
echo 'process KILL' >server_ends
run_job 'failed 5\nfinished 9\n' 0 --replicas=1
expect output "start 2: "
if grep "another server-0" output; then exit 1; fi

# Another job with the same folder does not.
run_job 'finished 9\n' 0 --run_dir=shared
job_id=8 run_job 'finished 9\n' 0 --run_dir=shared
if grep "goes on from" output; then exit 1; fi

# Wrong flags and allocations.
run_job '' 2 --worker_count=3
expect output 'unknown flag "--worker_count=3"'
run_job '' 2 other.textproto
expect output "expected one JOB.textproto, got job.textproto and other.textproto"
run_job '' 2 --restarts=many
expect output '--restarts: expected a number, got "many"'
run_job '' 1 --num_workers=4
expect output "expected 7 tasks for 1 coordinator, 2 servers and 4 workers, got 5; give sbatch --ntasks=7"
bash "${script}" --help >output
expect output "Usage: sbatch --ntasks=N deploy/slurm/capstan.sbatch JOB.textproto [flags]" "--ucx_prefix=DIR"
