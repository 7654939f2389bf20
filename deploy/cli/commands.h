#ifndef DEPLOY_CLI_COMMANDS_H_
#define DEPLOY_CLI_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/transport/grpc/grpc_security.h"
#include "deploy/cli/text/progress_lines.h"
#include "deploy/launch/hosts/host_list.h"
#include "deploy/launch/rendezvous.h"
#include "deploy/launch/terminal.h"
#include "deploy/launch/worker_program.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// The commands of capstan, each in a source file of its own. They print results to `out`.
// `capstan evaluate` is EvaluateCommand in evaluate_command.h, `capstan keys` KeysCommand in
// keys/keys_command.h, `capstan report` ReportCommand in report/run_report.h.

// Options of `capstan run`. Pointers are borrowed.
struct RunOptions {
  // Job file; empty: the built-in job.
  std::string job_file;
  // Job flags that override its fields, such as "--seed=2".
  std::vector<std::string> job_flags;
  // The workers' --device values, given out in turn; at least one.
  std::vector<std::string> devices = {"cpu"};
  // The user's program that takes the place of capstan_worker, if it has a command. Its world_size
  // comes from the job.
  WorkerProgram program;
  // Folder for logs and results, made if need be; empty: runs/NAME-YYYYMMDD-HHMMSS.
  std::string run_dir;
  // File to copy the summary to; empty: none.
  std::string summary_json;
  // Folder for the workers' histories, made if need be; empty: none are recorded.
  std::string record_history;
  // Whether workers and servers write traces into the run folder.
  bool has_trace = false;
  // Largest number of restarts after failures and of replaced processes, together. 0: the first
  // failure is the end.
  int most_restarts = 0;
  // Another coordinator, and with copies another server, takes a lost one's place, whatever
  // most_restarts is.
  bool replaces_servers = true;
  // Path of the running program. The other programs are found beside it. Required.
  std::string own_path;
  // True once for each interrupt from the terminal. Required.
  std::function<bool()> take_interrupt;
  // Size of the terminal behind `out`; nothing when it is no terminal. Required.
  std::function<std::optional<TerminalSize>()> terminal;
  // Folder of the keys of all processes; empty: none, they talk over loopback in plaintext.
  std::string keys;
  // Plaintext between machines.
  bool is_insecure = false;
  // The job's machines; nothing: this one alone. All see the same options.
  std::optional<Rendezvous> rendezvous;
  // The job's machines, if ssh is to reach them; nothing: as above. Not with `rendezvous`.
  std::optional<HostList> hosts;
  // host:port of the coordinator's live page; empty: none.
  std::string http_listen;
  // No progress is shown.
  bool is_quiet = false;
  // Required.
  std::ostream* out = nullptr;
  // Required.
  Clock* clock = nullptr;
};

// `capstan run`: returns when the job, and its processes on this machine, have ended. CANCELLED
// after an interrupt; other errors say why the job did not start or did not succeed.
absl::Status RunCommand(const RunOptions& options);

// `capstan job`: prints the job of a file (empty: the built-in job) and of `job_flags`, which
// override its fields. Relative paths become absolute, and the numbers of servers and workers are
// there also if they are the defaults.
absl::Status JobCommand(const std::string& job_file, const std::vector<std::string>& job_flags,
                        std::ostream& out);

// The value of --restart that starts nothing again.
inline constexpr absl::string_view kNeverRestart = "never";

// The number of restarts in a value of --restart; 0 when it is empty or kNeverRestart.
// INVALID_ARGUMENT, saying what was expected.
absl::StatusOr<int> ReadMostRestarts(absl::string_view restart);

// `capstan status`: asks the coordinator at `address` (host:port), and prints its answer.
absl::Status StatusCommand(const std::string& address, const SecurityPointer& security,
                           Clock* clock, std::ostream& out);

// Phase, consistency, members, clocks and placement of a job as lines for people. Rates are means
// since `before`, an earlier sample; without one, since the start of each worker.
std::string FormatStatus(const ProgressSample& now, const ProgressSample& before = {});

// A key of a sparse table, and how the user wrote it.
struct RowKey {
  std::string text;
  uint64_t key = 0;
};

// Keys with commas between them. A negative number is its 64 bits, as in Python. INVALID_ARGUMENT,
// naming the flag.
absl::StatusOr<std::vector<RowKey>> ReadRowKeys(absl::string_view list);

// Options of `capstan get`. Pointers are borrowed.
struct GetOptions {
  // One of both: the address of a running job's coordinator, host:port; or the folder of a
  // checkpoint, or of checkpoints.
  std::string coordinator;
  std::string checkpoint;
  std::string table;         // Required: a sparse one
  std::vector<RowKey> keys;  // Required
  SecurityPointer security = NoSecurity();
  Clock* clock = nullptr;  // Required
};

// `capstan get`: prints a line for each key: the values of its row, or that it has none. In a job
// with copies, rows of a server that does not answer are looked for on others, for half a minute.
absl::Status GetCommand(const GetOptions& options, std::ostream& out);

// Options of `capstan top`. Pointers are borrowed.
struct TopOptions {
  // Required: the coordinator's address, host:port.
  std::string address;
  SecurityPointer security = NoSecurity();
  // True once for each interrupt from the terminal. Required.
  std::function<bool()> take_interrupt;
  // The next key, or 0. Required.
  std::function<char()> take_key;
  // Size of the terminal behind `out`; nothing when it is no terminal. Required.
  std::function<std::optional<TerminalSize>()> terminal;
  // Required.
  std::ostream* out = nullptr;
  // Required.
  Clock* clock = nullptr;
};

// `capstan top`: shows the job's status, anew each second, until the job ends, an interrupt or the
// key q. If the coordinator is away, it waits as long as the job does. When `out` is no terminal,
// prints the status once.
absl::Status TopCommand(const TopOptions& options);

// The status, and each worker's use of time and staleness.
std::string FormatTop(const ProgressSample& now, const ProgressSample& before);

// `capstan set`: asks the coordinator at `address` (host:port) for the change, waits until the
// servers have agreed on its first step, and prints it.
absl::Status SetCommand(const std::string& address, const v1::SetConsistencyRequest& request,
                        const SecurityPointer& security, Clock* clock, std::ostream& out);

// The change in the flags consistency, staleness and table_staleness. An empty table_staleness
// clears the list. INVALID_ARGUMENT, naming the flag, for a bad value, or when no flag is given.
absl::StatusOr<v1::SetConsistencyRequest> ReadConsistencyChange(
    const std::map<std::string, std::string>& flags);

// "from step 120 of 400 on: ssp, staleness 4", as a line. A second line if the job ends before.
std::string FormatConsistencyReply(const v1::SetConsistencyReply& reply);

// `capstan check`: checks the history in a file or folder against the consistency contract, and
// prints the rules that it checked and could not check. `clock_skew`: largest difference of two
// clocks; none: as the history says. ABORTED, with the exchanges as proof, when the contract was
// broken; other errors say why the history cannot be read.
absl::Status CheckCommand(const std::string& path, std::optional<absl::Duration> clock_skew,
                          std::ostream& out);

// The value of --clock_skew_ms; none when it is empty. INVALID_ARGUMENT, saying what was expected.
absl::StatusOr<std::optional<absl::Duration>> ReadClockSkew(const std::string& milliseconds);

// `capstan checkpoint --coordinator`: asks the coordinator at `address` (host:port) for a
// checkpoint, waits until it is complete, and prints its step and its path.
absl::Status WriteCheckpointCommand(const std::string& address, const SecurityPointer& security,
                                    Clock* clock, std::ostream& out);

// `capstan checkpoint --list`: prints a line for each checkpoint in the folder `dir`, the newest
// first. Only manifests are read.
absl::Status ListCheckpointsCommand(const std::string& dir, std::ostream& out);

// `capstan checkpoint --verify`: reads all files of the checkpoint in the folder `path`, or of all
// complete ones in it, and prints each one that is right. DATA_LOSS has a line for each other one,
// with the file, what was expected and what was found.
absl::Status VerifyCheckpointsCommand(const std::string& path, std::ostream& out);

// `capstan export`: writes the parameters of a checkpoint into the safetensors file `output`.
// `checkpoint` is its folder, or a folder of checkpoints: then the newest complete one is taken. At
// most one shard is in memory. An existing file is replaced when the new one is complete.
// `with_optimizer_state`: also of dense tables, whose state is left out otherwise.
absl::Status ExportCommand(const std::string& checkpoint, const std::string& output,
                           bool with_optimizer_state, std::ostream& out);

// `capstan trace`: merges the traces in `run_dir` (*.trace.json) into `output` (empty: trace.json
// in `run_dir`), and prints its size and how to open it. NOT_FOUND when there are no traces; else
// the errors of MergeTraces.
absl::Status TraceCommand(const std::string& run_dir, const std::string& output, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_COMMANDS_H_
