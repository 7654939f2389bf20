#include "deploy/cli/cli_help.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job_help.h"
#include "common/trust/call_rights.h"
#include "deploy/cli/command_flags.h"
#include "deploy/cli/help_topics.h"

namespace capstan {
namespace {

// Each right includes the ones before it.
std::string RightsHelp() {
  std::string text;
  for (const Right right : {Right::kLook, Right::kRead, Right::kTakePart, Right::kOperate}) {
    absl::StrAppendFormat(&text, "  %-9s  %s%s\n", RightName(right),
                          right == Right::kLook ? "" : "also: ", CallersWith(right));
  }
  return text;
}

}  // namespace

std::string CapstanHelp() {
  std::string help =
      R"(Capstan trains models on a parameter server. Servers hold the parameters. Workers pull them, compute
gradients and push the gradients, under BSP, SSP or asynchronous consistency.

Usage:
  capstan run [--job=FILE] [flags]          Run a whole job on this machine and show its progress.
  capstan status RUN_DIR                    Print a running job's members, steps and placement.
  capstan top RUN_DIR                       Show the same, anew each second, until the job ends.
  capstan set RUN_DIR ...                   Change the consistency of a running job.
  capstan check HISTORY                     Check a recorded run against the consistency contract.
  capstan checkpoint --list=DIR             List checkpoints; --verify: check them; or write one.
  capstan export --checkpoint=DIR ...       Make a model's file of a checkpoint.
  capstan get --table=NAME --row_keys=...   Print rows of a running job or of a checkpoint.
  capstan evaluate FILE [--job=JOB]         Test a model that a job has written with --output.
  capstan job [--job=FILE] [flags]          Print the job of a file and of flags as a job file.
  capstan keys --out=DIR ...                Make certificates and tokens, or renew them.
  capstan report RUN_DIR                    Draw a run's loss, steps, staleness, time and bytes.
  capstan trace RUN_DIR                     Merge the traces of a run's processes into one.
  capstan address [--network=NETWORK]       Print the address that this machine tells others.
  capstan help [COMMAND|TOPIC]              Print this, all flags of a command, or a topic.
  capstan --version                         Print the version.

Topics of capstan help:
)";
  for (const HelpTopic& topic : HelpTopics()) {
    absl::StrAppend(&help, "  ", absl::StrFormat("%-13s", topic.name), topic.summary, "\n");
  }
  return absl::StrCat(help, R"(
Examples:
  capstan run                                          The built-in digits job: 2 servers, 2 workers.
  capstan run --job=deploy/jobs/digits_ssp.textproto   A job file.
  capstan run --output=digits.safetensors              Keep the model; --initial=FILE begins with one.
  capstan run --num_workers=4 --consistency=async      Flags override fields of the job.
  capstan run --worker_command="python train.py"       Workers are a program of your own.
  capstan status runs/capstan-20260101-120000          RUN_DIR, or --coordinator=HOST:PORT.
  capstan set runs/capstan-20260101-120000 --staleness=4

Exit codes: 0 success, 1 failure, 2 wrong command line, 130 interrupted.
)");
}

std::string RunHelp() {
  return absl::StrCat(R"(Usage: capstan run [--job=FILE] [flags]

Runs a whole job on this machine: one coordinator, the job's servers and its workers. Each is a process
with a log in the run folder. The command shows where the coordinator listens, the progress, and the
summary at the end. The summary warns of a training that has failed; the exit code is still 0. Ctrl-C
ends all processes, also with --restart.

)",
                      CommandFlagsHelp(RunFlags()), R"(
Each of the following flags overrides one field of the job. Sizes in bytes may end in K, M or G (KiB,
MiB, GiB). Lists have commas. Relative paths count from the current folder. A flag without effect, such
as --beta1 with --optimizer=sgd, is refused; a job file may contain such a field.

)",
                      JobFlagsHelp(), R"(
Examples:
  capstan run --steps=200 --summary_json=summary.json
  capstan run --job=deploy/jobs/digits.textproto --consistency=ssp --staleness=3
  capstan run --num_workers=4 --device=cuda:0,cuda:1
  capstan run --checkpoint_dir=checkpoints --checkpoint_steps=500 --restart=on_failure
  capstan run --data_format=csv --data_path=train.csv --has_header --hidden=32 --epochs=5
  capstan run --worker_command="python train.py" --num_workers=4
)");
}

std::string SetHelp() {
  return absl::StrCat(R"(Usage: capstan set RUN_DIR [flags]
       capstan set --coordinator=HOST:PORT [flags]

Changes the consistency of a running job, and prints the first step of the change. No worker has
reached that step, and it is the same for all workers. Earlier steps keep their consistency.

Flags:
)",
                      CommandFlagsHelp(SetFlags()), R"(
Examples:
  capstan set --coordinator=127.0.0.1:45123 --consistency=ssp --staleness=4
  capstan set --coordinator=127.0.0.1:45123 --staleness=2 --table_staleness=fc1.weight:8
  capstan set --coordinator=127.0.0.1:45123 --consistency=bsp
)");
}

std::string CheckHelp() {
  return absl::StrCat(R"(Usage: capstan check HISTORY [--clock_skew_ms=N]

Checks a history against the consistency contract of its job. HISTORY is a file, or the folder of
capstan run --record_history=DIR. The checks: no pull is answered too early, no update is lost or applied
twice, versions and clocks are correct and never go back. Prints the first violation and the exchanges
that prove it.

A run records the version and min_step of each reply. With --model=updates it also records the values,
which show the updates in each pull (read-my-writes and others). Times are by the workers' clocks.

Flags:
)",
                      CommandFlagsHelp(CheckFlags()), R"(
Example:
  capstan run --consistency=ssp --staleness=2 --record_history=history && capstan check history
  capstan run --model=updates --steps=500 --consistency=async --replicas=2 --record_history=history
)");
}

std::string CheckpointHelp() {
  return absl::StrCat(R"(Usage: capstan checkpoint RUN_DIR
       capstan checkpoint --coordinator=HOST:PORT
       capstan checkpoint --list=DIR
       capstan checkpoint --verify=DIR

Writes a checkpoint of a running job, lists the checkpoints in a folder, or verifies checkpoints. A
checkpoint is a folder: the text file manifest, and a safetensors file for each shard. It is complete
once its manifest is there. capstan run --restore=DIR goes on from it.

Flags, exactly one of the first three:
)",
                      CommandFlagsHelp(CheckpointFlags()), R"(
Examples:
  capstan checkpoint --coordinator=127.0.0.1:45123
  capstan checkpoint --list=checkpoints
  capstan checkpoint --verify=checkpoints/checkpoint-000003
)");
}

std::string ExportHelp() {
  return absl::StrCat(R"(Usage: capstan export --checkpoint=DIR --output=FILE [--optimizer_state]

Writes the parameters of a checkpoint into a safetensors file, such as --output of capstan run. capstan
evaluate tests it, and --initial=FILE begins a job with it, unless it has sparse tables. Each file of the
checkpoint is verified. The rows of a sparse table are the tensors TABLE.keys (int64), TABLE.values and
TABLE.state, in one order.

With --optimizer_state the file also has the optimizer's state of dense tables, all of it float32:
optimizer.TABLE.ARRAY has the table's shape and torch's name of the array, as momentum_buffer, exp_avg or
exp_avg_sq. optimizer.TABLE.step is a scalar, the number of updates of the table's first part; under bsp
all parts have as many. SGD without momentum has no state. --initial=FILE begins with the parameters
alone, unless --initial_optimizer_state is given.

Under bsp the parameters have all updates of the steps before the checkpoint's step, and no others. Under
ssp and async the job does not stand still for a checkpoint, and each shard is written at a moment of its
own. Then the parameters have all updates of the steps before the checkpoint's step, and some parts of
them have updates of later steps, too.

Flags:
)",
                      CommandFlagsHelp(ExportFlags()), R"(
Example:
  capstan export --checkpoint=checkpoints --output=digits.safetensors --optimizer_state
)");
}

std::string GetHelp() {
  return absl::StrCat(
      R"(Usage: capstan get --table=NAME --row_keys=KEY,... --coordinator=HOST:PORT [flags]
       capstan get --table=NAME --row_keys=KEY,... --checkpoint=DIR

Prints rows of a sparse table, a line for each key: the key and the values of its row, or that it has no
row. A running job is not disturbed: reading a row does not count as its use. Each row is as it was at one
moment, rows of different keys may be of different moments.

Flags:
)",
      CommandFlagsHelp(GetFlags()), R"(
Examples:
  capstan get --coordinator=127.0.0.1:45123 --table=items --row_keys=7,12,-3
  capstan get --checkpoint=checkpoints --table=items --row_keys=7
)");
}

std::string EvaluateHelp() {
  return absl::StrCat(R"(Usage: capstan evaluate FILE [--job=JOB] [job flags]

Reads a model from a safetensors file, such as --output of capstan run, and computes it on the CPU on the
test samples of a job. Prints what the file says about itself, then accuracy and loss with all digits,
and the AUC of a model of clicks, whose file capstan export makes. With --output's file they equal those
in the summary of its job, if its workers were CPUs of this kind.
The job flags are those of capstan run. They must name the same model, and for clicks the same --seed;
those of the data may differ.

Flags:
)",
                      CommandFlagsHelp(EvaluateFlags()), R"(
Example:
  capstan run --output=digits.safetensors && capstan evaluate digits.safetensors
)");
}

std::string AddressHelp() {
  return absl::StrCat(R"(Usage: capstan address [--network=INTERFACE|RANGE] [--towards=HOST]

Prints an address of this machine: the one that servers announce with the same --network. Keys for a
machine need it: capstan keys --hosts=ADDRESS,...

Flags:
)",
                      CommandFlagsHelp(AddressFlags()), R"(
Examples:
  capstan address
  capstan address --network=10.0.0.0/16
)");
}

std::string JobHelp() {
  return absl::StrCat(R"(Usage: capstan job [--job=FILE] [job flags]

Prints the job of a file and of flags as a job file. Flags override fields of the file, and paths are
absolute. Fields without a line have their defaults. The job flags are those of capstan run.

Flags:
)",
                      CommandFlagsHelp(JobCommandFlags()), R"(
Example:
  capstan job --job=deploy/jobs/digits.textproto --num_workers=4 > four_workers.textproto
)");
}

std::string KeysHelp() {
  return absl::StrCat(R"(Usage: capstan keys --out=DIR [--hosts=HOST,...] [--days=N]
       capstan keys --from=DIR --right=look|read|take_part --out=DIR [--days=N]
       capstan keys --from=DIR --hosts=HOST,... --out=DIR [--days=N]

Makes a folder of keys, which the programs take as --keys=DIR: they then talk over TLS, and only who has
the token takes part. The folder has the certificate of a CA (ca.crt), a certificate that it has signed
(tls.crt), the private keys of both (ca.key, tls.key), and the file token. The second time, tls.crt and
tls.key are renewed, and running processes read them by themselves.

With --from, makes keys for somebody else, without ca.key: for other hosts with --hosts, or with fewer
rights with --right. If the other folder has no ca.key, its certificates come from elsewhere, and so must
these: --right then writes ca.crt and token alone.

Flags:
)",
                      CommandFlagsHelp(KeysFlags()), R"(
Rights, and what each allows:
)",
                      RightsHelp(), R"(
Examples:
  capstan keys --out=keys && capstan run --keys=keys
  capstan keys --out=keys --hosts=node1.example.org,10.0.0.1
  capstan keys --from=keys --hosts=node2.example.org --out=keys_node2
  capstan keys --from=keys --right=look --out=keys_look
)");
}

std::string ReportHelp() {
  return absl::StrCat(R"(Usage: capstan report RUN_DIR [--output=FILE]

Draws a run on one self-contained HTML page: loss over time and over steps, steps of each worker,
staleness, each worker's use of time, and bytes. RUN_DIR is the folder of a capstan run. The run may
still go on, or have failed. A worker reports every --heartbeat_seconds; a shorter interval makes the
lines of a short run finer.

Flags:
)",
                      CommandFlagsHelp(ReportFlags()), R"(
Example:
  capstan run --run_dir=digits --heartbeat_seconds=0.05 && capstan report digits
)");
}

std::string TraceHelp() {
  return absl::StrCat(R"(Usage: capstan trace RUN_DIR [--output=FILE]

Merges the traces of a run's workers and servers into one file and aligns their clocks. Open the file
at https://ui.perfetto.dev or chrome://tracing. It shows the computation of each layer and the waits for
its values, and the phases of each exchange: queueing, sending, application and parking at the server,
and the reply. RUN_DIR is the folder of a capstan run --trace, or any folder with the traces of
capstan_worker and capstan_server (--trace=FILE) under names that end in .trace.json.

Flags:
)",
                      CommandFlagsHelp(TraceFlags()), R"(
Example:
  capstan run --run_dir=digits --steps=100 --trace && capstan trace digits
)");
}

std::string StatusHelp() {
  return absl::StrCat(R"(Usage: capstan status RUN_DIR
       capstan status --coordinator=HOST:PORT

Prints a running job's phase, consistency, tuning result, servers (address, shards, bytes) and workers
(step, loss, rates).

Flags:
)",
                      CommandFlagsHelp(StatusFlags()), R"(
Example:
  capstan status --coordinator=127.0.0.1:45123
)");
}

std::string TopHelp() {
  return absl::StrCat(R"(Usage: capstan top RUN_DIR
       capstan top --coordinator=HOST:PORT

Shows a running job on the terminal, anew each second: what capstan status prints, rates over the last
seconds, each worker's use of time and its staleness, and what was lost. Ends with the job, with q or
with Ctrl-C. If the output is no terminal, prints all that once.

Flags:
)",
                      CommandFlagsHelp(TopFlags()), R"(
Example:
  capstan top --coordinator=127.0.0.1:45123
)");
}

}  // namespace capstan
