#include "deploy/cli/help_topics.h"

#include "common/job/job_help.h"

namespace capstan {
namespace {

constexpr HelpTopic kTopics[] = {
    {"jobs", "what a job is, its file, its flags, its folder", R"(JOBS

A job is one training: a model, data, an optimizer, and numbers of servers and workers. Its file is
in protobuf's text format. A field that is left out has its default, so a short file is enough:

  name: "digits"
  cluster { num_servers: 1 num_workers: 2 }
  training { batch_size: 32 epochs: 60 }
  optimizer { type: MOMENTUM learning_rate: 0.05 momentum: 0.9 }

Most fields have a flag, which overrides the field. Without a file, the built-in job trains on
handwritten digits. Relative paths of data in a file count from the file's folder; in a flag they
count from the current folder.

  capstan run                                          the built-in job
  capstan run --job=digits.textproto --num_workers=4   a file, and a flag
  capstan run --data_format=csv --data_path=train.csv --has_header --hidden=32 --epochs=5

The run folder (--run_dir) has a log of each process, effective_job.textproto with the file and
the flags together, and summary.json. With --output=FILE the job keeps its model:

  capstan run --output=digits.safetensors && capstan evaluate digits.safetensors

All flags of jobs: capstan run --help. Fields without a flag: capstan help fields.
)"},
    {"fields", "fields of a job that have no flag", R"(FIELDS

Few jobs need these fields, so they have no flag. A job file sets them as any other field:

  limits { message_bytes: 33554432 }

On the command line, --field=FIELD=VALUE sets any field of a job, also one that has a flag. It may
be given several times, to all commands that take the flags of a job. Sizes may end in K, M or G.

  capstan run --field=limits.message_bytes=32M --field=scheduler.credit_bytes=8M

)",
     JobFieldsHelp},
    {"programs", "workers that are programs of your own", R"(PROGRAMS

The workers of a job may be a program of your own. It calls capstan.h, or the Python package on top
of it: it names its parameters, and pushes gradients in each step. The servers do the rest.

  capstan run --worker_command=./train.py --num_workers=4 --num_servers=2

A command of several words has quotes: --worker_command="python train.py". For each worker, /bin/sh
runs it in the current folder. Its environment has:

  CAPSTAN_COORDINATOR             HOST:PORT of the job's coordinator; several have commas between
  CAPSTAN_KEYS                    the folder of --keys; not set without keys
  RANK, LOCAL_RANK                number of the worker in the job, and on its machine, from 0
  CAPSTAN_RANK                    the same as RANK, which torchrun within a worker sets anew
  WORLD_SIZE, LOCAL_WORLD_SIZE    number of workers of the job, and on this machine
  MASTER_ADDR, MASTER_PORT        where torch.distributed meets: the worker with rank 0
  OMP_NUM_THREADS                 1, with several workers on a machine and unless you set it
  PYTHONUNBUFFERED                1, unless you set it: what Python prints is in the log at once

The program joins the job, stays to its end, and exits with 0. What it prints is in
RUN_DIR/worker-0.log and so on. If it fails, capstan run shows the last lines. When the run ends,
however it ends, the program's process group is killed.

Consistency, codecs and checkpoints are those of any job. --optimizer is for parameters to which the
program gives none of their own. If it gives one to all, as with PyTorch, --optimizer and
--learning_rate are refused. Flags of data and batches always are. A job file says
model { type: PROGRAM }.

On several machines: the same flag with --hosts or --rendezvous. To start a program by hand, set
CAPSTAN_COORDINATOR and start it.
)"},
    {"consistency", "bsp, ssp, async: how far workers may differ", R"(CONSISTENCY

The consistency says when a server answers a worker that asks for parameters.

  bsp     All workers step together. Each step sees all updates of earlier steps. Every run gives
          the same bits, with every number of servers. This is the default.
  ssp     A worker may be at most --staleness steps ahead of the slowest one. It does not wait for
          one that is slow for a short time.
  async   No worker waits for another one.

Take bsp if all workers are equally fast. Take ssp if some are slow now and then. Take async if
some are always slower, and if the accuracy at the end suffices. A learning rate for bsp suits all
three, because servers divide it by the number of workers and by the staleness (--update_scale).

  capstan run --consistency=ssp --staleness=3
  capstan run --consistency=async --num_workers=4

A running job can change its consistency. The address is in RUN_DIR/coordinator.port:

  capstan set --coordinator=127.0.0.1:45123 --consistency=ssp --staleness=4

To check that a run has kept the rule, record it:

  capstan run --consistency=ssp --staleness=2 --record_history=history && capstan check history
)"},
    {"local-steps", "workers that train alone for many steps", R"(LOCAL STEPS

With local steps a worker takes many steps with its own optimizer, and then exchanges once: for
workers in several clusters, at homes, or on machines that come and go. A step of the job is then a
round. The servers apply the job's optimizer, the outer one, to the mean of what the workers have
changed. 50 local steps with int8 send about 180 times fewer bytes than float32 in each step.

A PyTorch program has them by capstan.torch:

  local = ct.LocalSteps(model, inner, sync_every=50)

  capstan run --num_workers=4 --push_codec=int8 --pull_codec=int8 --worker_command=./train.py

The built-in models mlp, logistic_regression and replay have them by flags, on CPUs:

  capstan run --local_steps=20 --local_optimizer=adamw --local_learning_rate=0.001
  capstan run --local_steps=5 --optimizer=adagrad --consistency=async

- --consistency=bsp takes the outer optimizer that is the default (learning rate 0.7, Nesterov's
  momentum 0.9). With ssp and async each worker's round is an update by itself, so a momentum
  above 0.5 is refused.
- fragments=4 pushes the layers in four parts, at four moments of a round. With
  fragment_sync_delay=5 a worker goes on for 5 steps until it takes new values, so that nobody
  waits for the network.
- round_seconds=600 in place of sync_every: a slow machine does fewer steps in a round.
- --steps, --checkpoint_steps and all that counts steps count rounds; --epochs of a built-in model
  still are passes through its data.

deploy/guide/local-steps.md says when it pays, and how workers in two clusters find the servers.
)"},
    {"machines", "a job on several machines", R"(SEVERAL MACHINES

By ssh, from one terminal. ssh has to work without a password. The programs are copied once, keys
are made, and Ctrl-C ends all. Each host gets one server, and one worker for each device unless :N
says more:

  capstan run --hosts=a,b:2 --job=digits.textproto
  capstan run --hosts=hosts.txt --network=10.0.0.0/16

Without ssh: make keys, and copy the folder to each machine (capstan help keys). Then type one
command alike on each of them. The machine of --rendezvous coordinates, and the others wait for it:

  capstan keys --out=keys --hosts=a,b
  capstan run --nnodes=2 --rendezvous=a:4000 --keys=keys --job=digits.textproto

By hand: start as many servers and workers as the job has. They get it from the coordinator:

  a$ capstan_coordinator --keys=keys --job=digits.textproto --listen=0.0.0.0:4000
  a$ capstan_server --keys=keys --coordinator=a:4000 --listen=0.0.0.0:4001 --advertise_host=a
  b$ capstan_worker --keys=keys --coordinator=a:4000

Between machines, programs need keys, or --insecure in a network that you trust. Workers read the
data files on their own machines. The coordinator and all servers share the folders of
--checkpoint_dir and --output.

All flags: capstan run --help, capstan_coordinator --help, capstan_server --help,
capstan_worker --help.
)"},
    {"slurm", "a job on a cluster with Slurm", R"(SLURM

One script runs a job in an allocation: the first task is the coordinator, the next ones are the
servers, then come the workers. It has 5 tasks unless you ask for more. It takes a job file, and
job flags:

  sbatch deploy/slurm/capstan.sbatch digits.textproto
  sbatch --ntasks=7 --nodes=2 deploy/slurm/capstan.sbatch digits.textproto --num_workers=4

The programs, the data and the run folder (runs/slurm-JOBID) must have the same paths on all nodes.
Keys are made for the job. It writes checkpoints, and goes on from the newest one after the loss
of a server or a requeue. scancel leaves the checkpoints and the summary so far.

More: deploy/slurm/README.md. Its flags: bash deploy/slurm/capstan.sbatch --help. Those of jobs:
capstan run --help.
)"},
    {"keys", "TLS and tokens: who may take part", R"(KEYS

Without keys, all programs talk in plaintext, and only within one machine. With --keys=DIR they
talk over TLS, and only who has the token of the job takes part. The same flag is needed by
capstan status, top, get, set and checkpoint.

  capstan keys --out=keys --hosts=node1.example.org,10.0.0.1
  capstan run --keys=keys

Clients check that a certificate names the host by which they reach a server. Copy the folder to
all machines, without ca.key, or make one for each machine:

  capstan keys --from=keys --hosts=node2.example.org --out=keys_node2

Others may get fewer rights. look: read the job's status. read: also its parameters. take_part:
also be a worker.

  capstan keys --from=keys --right=look --out=keys_look
  capstan status --keys=keys_look --coordinator=node1.example.org:4000

The first command a second time renews the certificate. Running processes read it by themselves.
All flags: capstan keys --help.
)"},
    {"compression", "fewer bytes on the network", R"(COMPRESSION

A codec makes gradients (--push_codec) or values (--pull_codec) smaller on the network. What a
push lacks is added to the worker's next gradient.

  float32        exact. This is the default.
  bfloat16       2 times smaller: 8 bits of precision are left.
  int8           3.94 times smaller: 255 steps, rounded at random.
  topk:0.01      50 times smaller: the largest hundredth of the values.
  topk:0.01:int8 about 80 times smaller: the same, as int8.
  auto           float32, and int8 from some step on if that makes steps shorter.

Begin with auto both ways on several machines, or with int8 if two runs must have equal bits. On
one machine a codec gains little. topk needs trainings of many steps.

  capstan run --push_codec=int8 --pull_codec=int8
  capstan run --push_codec=topk:0.01 --pull_codec=topk:0.01 --epochs=300
  capstan run --push_codec=topk:0.001 --dgc --optimizer=sgd

Tables smaller than codec.min_bytes (16KiB) stay float32. --table_codec names codecs of single
tables:

  capstan run --push_codec=int8 --table_codec=fc1.weight:int8,fc3.bias:float32

The summary says how many bytes were sent, and how many they would be as float32.
)"},
    {"checkpoints", "go on after a failure, or later", R"(CHECKPOINTS

A checkpoint is all that the servers hold. A job goes on from it as if nothing had happened; under
bsp it ends with the same bits. One is written each --checkpoint_steps or --checkpoint_seconds,
and at the end. The newest two stay (--keep).

  capstan run --checkpoint_dir=saved --checkpoint_steps=100
  capstan checkpoint --list=saved
  capstan checkpoint --verify=saved

To go on later from the newest one, also with another number of servers or more steps:

  capstan run --checkpoint_dir=saved --restore=latest --epochs=40 --num_servers=3

To go on at once, by itself, when a process is lost:

  capstan run --checkpoint_dir=kept --checkpoint_steps=100 --restart=on_failure

A running job with --checkpoint_dir writes one on request. The address is in
RUN_DIR/coordinator.port:

  capstan checkpoint --coordinator=127.0.0.1:45123

To make a model's file of the newest one:

  capstan export --checkpoint=saved --output=saved.safetensors
)"},
    {"watching", "progress, page, metrics, report, trace", R"(WATCHING

While a job runs, its address is in RUN_DIR/coordinator.port:

  capstan status --coordinator=127.0.0.1:45123   members, steps and placement, once
  capstan top --coordinator=127.0.0.1:45123      the same on the terminal, anew each second

A page for browsers shows the job as it goes on. Open http://127.0.0.1:4080:

  capstan run --epochs=300 --http_listen=127.0.0.1:4080

capstan_coordinator, capstan_server and capstan_worker have --metrics_listen for Prometheus,
--health_listen for probes, and --log_format=json.

After a job, or while it runs, its folder tells more:

  capstan run --run_dir=digits --heartbeat_seconds=0.05 --trace
  capstan report digits   one HTML page: loss, steps, staleness, time and bytes
  capstan trace digits    where the time of each step went, for https://ui.perfetto.dev

The folder also has a log of each process. The summary at the end warns of a training that has
failed.
)"},
    {"flagfile", "flags in a file", R"(FLAG FILES

Every program and command reads flags from a file with --flagfile=FILE. A line is one flag, a
comment, or blank:

  # ssp.flags: two workers that may differ.
  --consistency=ssp
  --staleness=3
  --run_dir=ssp

  capstan run --flagfile=ssp.flags

The flags count as if they stood in the place of --flagfile. If a flag is given twice, the last
one wins. So this has a staleness of 5:

  capstan run --flagfile=ssp.flags --staleness=5

- A value ends with its line. There are no quotes, and # begins a comment only at the beginning.
- A file may have lines --flagfile=FILE itself: up to 64 files, and none that reads itself.
- All paths count from the current folder.
- An error names the file, and the number of a line that is no flag.
)"},
    {"exit_codes", "what the programs end with", R"(EXIT CODES

  0     Success. If the job has trained badly, the summary warns of it, and the code is still 0.
  1     Failure. One line on standard error says what was expected, what was got, and what to do.
        capstan check: the history breaks the contract.
  2     Wrong command line, or a job with a wrong value. Nothing was started.
  130   capstan run was interrupted, as by Ctrl-C. It has ended all processes.

capstan_coordinator, capstan_server and capstan_worker have 0, 1 and 2 as well. If a job fails,
each of its programs ends with 1 and says why.

  if capstan run --run_dir=digits --summary_json=summary.json; then
    cat summary.json
  else
    tail digits/*.log
  fi
)"},
};

}  // namespace

absl::Span<const HelpTopic> HelpTopics() { return kTopics; }

}  // namespace capstan
