#include "deploy/cli/cli_help.h"

#include "absl/strings/str_cat.h"
#include "common/job/job_flags.h"

namespace capstan {
namespace {

constexpr CommandFlag kRunFlags[] = {
    {"job", "FILE",
     "Job file (protobuf text format); its relative data paths count from its folder, those of "
     "flags\n      from the current folder. Default: the built-in job, with all defaults."},
    {"device", "DEVICE,...",
     "What the workers compute on, in turn: cpu, cuda (the first GPU) or cuda:N. Default: cpu."},
    {"run_dir", "DIR",
     "Folder for logs and results; those of an earlier run there are removed first, and nothing\n"
     "      else. Default: runs/NAME-YYYYMMDD-HHMMSS."},
    {"summary_json", "FILE", "Also write the summary there, as JSON. Default: none."},
    {"record_history", "DIR",
     "Folder for what each worker asks and gets, for capstan check; histories of an earlier run\n"
     "      there are removed first. Costs time. Default: none."},
    {"trace", "",
     "Each worker and server writes what it does, and when, into a file of the run folder, for\n"
     "      capstan trace. Default: none."},
};

constexpr CommandFlag kStatusFlags[] = {
    {"coordinator", "HOST:PORT",
     "Address of the job's coordinator, as in RUN_DIR/coordinator.port. Required."},
};

constexpr CommandFlag kSetFlags[] = {
    {"coordinator", "HOST:PORT",
     "Address of the job's coordinator, as in RUN_DIR/coordinator.port. Required."},
    {"consistency", "bsp|ssp|async",
     "When a pull is answered. bsp and async unset the staleness. Default: as it is."},
    {"staleness", "STEPS", "ssp: by how many steps workers may differ. Default: as it is."},
    {"table_staleness", "TABLE:STEPS,...",
     "ssp: all tables with a staleness of their own, in place of those before; empty: none has "
     "one.\n"
     "      Default: as it is."},
};

constexpr CommandFlag kCheckFlags[] = {
    {"clock_skew_ms", "N",
     "By how much the clocks of two workers may differ. Default: as the history says, 1."},
};

constexpr CommandFlag kReportFlags[] = {
    {"output", "FILE", "Where the page goes. Default: RUN_DIR/report.html."},
};

constexpr CommandFlag kTraceFlags[] = {
    {"output", "FILE", "Where the trace goes. Default: RUN_DIR/trace.json."},
};

}  // namespace

absl::Span<const CommandFlag> RunFlags() { return kRunFlags; }
absl::Span<const CommandFlag> StatusFlags() { return kStatusFlags; }
absl::Span<const CommandFlag> SetFlags() { return kSetFlags; }
absl::Span<const CommandFlag> CheckFlags() { return kCheckFlags; }
absl::Span<const CommandFlag> ReportFlags() { return kReportFlags; }
absl::Span<const CommandFlag> TraceFlags() { return kTraceFlags; }

std::string CapstanHelp() {
  return R"(Capstan trains models on a parameter server: servers hold the parameters, workers pull them, compute
gradients and push them, under BSP, SSP or asynchronous consistency.

Usage:
  capstan run [--job=FILE] [flags]          Run a whole job on this machine and show its progress.
  capstan status --coordinator=HOST:PORT    Ask a running job for its members, clocks and placement.
  capstan set --coordinator=HOST:PORT ...   Change the consistency of a running job.
  capstan check HISTORY                     Check a recorded run against the consistency contract.
  capstan report RUN_DIR                    Draw a run's loss, steps, staleness, time and bytes.
  capstan trace RUN_DIR                     Merge the traces of a run's processes into one.
  capstan help [COMMAND]                    Print this, or all flags of a command.
  capstan --version                         Print the version.

Examples:
  capstan run                                          The built-in digits job: 2 servers, 2 workers.
  capstan run --job=deploy/jobs/digits_ssp.textproto   A job file.
  capstan run --num_workers=4 --consistency=async      Flags override fields of the job.
  capstan status --coordinator=127.0.0.1:45123         The address is in RUN_DIR/coordinator.port.
  capstan set --coordinator=127.0.0.1:45123 --staleness=4

Exit codes: 0 success, 1 failure, 2 wrong command line, 130 interrupted.
)";
}

std::string RunHelp() {
  return absl::StrCat(R"(Usage: capstan run [--job=FILE] [flags]

Runs a whole job on this machine: one coordinator, the job's servers and its workers, each a process
with a log in the run folder. Shows the progress, and at the end the summary, which warns when the
training has failed: the exit code is 0 all the same. Ctrl-C ends all of them.

Flags:
)",
                      CommandFlagsHelp(RunFlags()), R"(
Each of the following overrides one field of the job. Sizes in bytes may end in K, M or G (KiB, MiB,
GiB); lists have commas. A flag that cannot matter, as --beta1 with --optimizer=sgd, is refused; a job
file may hold such a field.

)",
                      JobFlagsHelp(), R"(
Examples:
  capstan run --steps=200 --summary_json=summary.json
  capstan run --job=deploy/jobs/digits.textproto --consistency=ssp --staleness=3
  capstan run --num_workers=4 --device=cuda:0,cuda:1
  capstan run --data_format=csv --data_path=train.csv --has_header --hidden=32 --epochs=5
)");
}

std::string SetHelp() {
  return absl::StrCat(R"(Usage: capstan set --coordinator=HOST:PORT [flags]

Changes the consistency of a job that trains, and prints from which step on: one that no worker has
reached, the same for all of them. What is promised for the steps before stays as it was.

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

Checks a history, which is a file or a folder of files that capstan run --record_history=DIR has made,
against the consistency contract of its job: no pull before its time, no update lost or applied twice,
nothing that goes back, versions and clocks that are true. Names the first violation, with the
exchanges that prove it.

A run records versions and min_step of each answer, and no values: which updates a pull contains, as
for read-my-writes, is checked in simulations only. Times are those of the workers' machines.

Flags:
)",
                      CommandFlagsHelp(CheckFlags()), R"(
Example:
  capstan run --consistency=ssp --staleness=2 --record_history=history && capstan check history
)");
}

std::string ReportHelp() {
  return absl::StrCat(R"(Usage: capstan report RUN_DIR [--output=FILE]

Makes one HTML page of a run, which needs nothing beside itself: loss over time and over steps, steps
of each worker over time, staleness, where each worker's time went, and bytes. RUN_DIR is the folder of
a capstan run, also of one that runs still or has failed. A worker reports every --heartbeat_seconds:
of a run of a few seconds, a shorter one draws finer lines.

Flags:
)",
                      CommandFlagsHelp(ReportFlags()), R"(
Example:
  capstan run --run_dir=digits --heartbeat_seconds=0.05 && capstan report digits
)");
}

std::string TraceHelp() {
  return absl::StrCat(R"(Usage: capstan trace RUN_DIR [--output=FILE]

Merges the traces of a run's workers and servers into one file, with their clocks aligned, to be opened
at https://ui.perfetto.dev or chrome://tracing: when each layer was computed and waited for, and of
each slice's exchange how long it queued, was sent, was applied and parked by its server, and came
back. RUN_DIR is the folder of a capstan run --trace, or any that has the files (*.trace.json) which
capstan_worker and capstan_server wrote with --trace=FILE.

Flags:
)",
                      CommandFlagsHelp(TraceFlags()), R"(
Example:
  capstan run --run_dir=digits --steps=100 --trace && capstan trace digits
)");
}

std::string StatusHelp() {
  return absl::StrCat(R"(Usage: capstan status --coordinator=HOST:PORT

Prints a running job's phase, consistency, what tuning has found, servers (address, shards, bytes)
and workers (step, loss, rates).

Flags:
)",
                      CommandFlagsHelp(StatusFlags()), R"(
Example:
  capstan status --coordinator=127.0.0.1:45123
)");
}

}  // namespace capstan
