// capstan_coordinator: knows the members of the job and the place of every shard; ends the job.
#include <glog/logging.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/flag_help.h"
#include "common/base/log_format.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "common/job/job_help.h"
#include "common/job/load_job.h"
#include "common/transport/grpc/grpc_setup.h"
#include "server/coordinator/coordinator_process.h"
#include "server/coordinator/job_outcome.h"

ABSL_FLAG(std::string, job, "",
          "File of the job, in protobuf text format (proto/job.proto). None: all defaults.");
ABSL_FLAG(std::string, listen, "127.0.0.1:4000",
          "Address to serve on, reachable for servers and workers. Port 0 takes a free one.");
ABSL_FLAG(std::string, health_listen, "",
          "Address for probes over HTTP (/healthz, /readyz), without encryption. "
          "Ready: it listens at --listen, and the job has not ended. Port 0 takes a "
          "free one.");
ABSL_FLAG(std::string, log_format, "text",
          "Log on standard error: text, or json: an object a line with time, level, role, message "
          "and source, and id, step and reason where they are known.");
ABSL_FLAG(std::string, metrics_listen, "",
          "Address for metrics: /metrics has Prometheus's text format, without encryption. It is "
          "numbers and the job's name. Port 0 takes a free one.");
ABSL_FLAG(
    std::string, http_listen, "",
    "Address of a page for browsers: the job as it goes on, and a control for its "
    "consistency. With --keys over TLS, for whoever logs in with a token. Port 0 takes a free "
    "one.");
ABSL_FLAG(uint32_t, max_connections, 0,
          "Limit of open connections of members. Calls on more are refused. 0: 64, and 4 more for "
          "each server and worker of the job; a worker with a program counts as 16 processes.");
ABSL_FLAG(
    std::string, state, "",
    "Folder in which the job is kept, so that it goes on if the coordinator is lost: start it "
    "again with the same flags and this folder, here or on another machine that has it. "
    "Servers and workers train meanwhile, and wait for it (--coordinator_seconds). None: the "
    "job ends with the coordinator.");
ABSL_FLAG(bool, take_over, false,
          "With --state: go on with the job although another coordinator may still use the folder, "
          "because it hangs or its machine cannot be reached. That one ends when it comes back.");
ABSL_FLAG(std::string, keys, "",
          "Folder with this process's keys for TLS and the job's token (capstan keys makes one). "
          "None: plaintext, within this machine.");
ABSL_FLAG(
    bool, insecure, false,
    "Plaintext also from other machines: only in a network that you trust. With --keys callers "
    "prove the job's token.");
ABSL_FLAG(std::string, port_file, "",
          "File for the coordinator's HOST:PORT, written once it listens.");
ABSL_FLAG(
    std::string, summary_json, "",
    "File for the job's summary as JSON, written when the job has ended, also if it has failed "
    "or was interrupted.");

namespace capstan {
namespace {

using Args = std::vector<std::string>;

constexpr char kUsage[] = R"(Usage: capstan_coordinator --job=FILE [--listen=HOST:PORT] [flags]

Knows the members of a job and the places of its parameters, and ends the job.

)";

constexpr char kJobFlagsUsage[] = R"(
Each of the following flags overrides one field of the job. Sizes in bytes may end in K, M or G
(KiB, MiB, GiB). Lists have commas.

)";

constexpr absl::string_view kJob = "What runs";
constexpr absl::string_view kListens = "Where it listens";
constexpr absl::string_view kTrust = "Trust";
constexpr absl::string_view kMonitoring = "Probes, metrics, page and logs";

constexpr ProgramFlag kFlags[] = {
    {kJob, "job", "FILE"},
    {kJob, "summary_json", "FILE"},
    {kJob, "state", "DIR"},
    {kJob, "take_over", ""},
    {kListens, "listen", "HOST:PORT"},
    {kListens, "port_file", "FILE"},
    {kListens, "max_connections", "N"},
    {kTrust, "keys", "DIR"},
    {kTrust, "insecure", ""},
    {kMonitoring, "health_listen", "HOST:PORT"},
    {kMonitoring, "metrics_listen", "HOST:PORT"},
    {kMonitoring, "http_listen", "HOST:PORT"},
    {kMonitoring, "log_format", "text|json"},
};

// For this time after the end, programs can ask for the last progress.
constexpr absl::Duration kLinger = absl::Milliseconds(100);
// With a live page: browsers ask every second, and are to see how the job has ended.
constexpr absl::Duration kPageLinger = absl::Milliseconds(1500);
// With metrics, after a failure: Prometheus is to see why, if it asks every 5 seconds.
constexpr absl::Duration kMetricsLinger = absl::Seconds(12);

// For this time the coordinator answers after the end. A member that registers late learns then why
// the job has failed.
absl::Duration LingerTime(const v1::JobSpec& job, const JobOutcome& outcome, bool has_page) {
  const absl::Duration linger = has_page ? kPageLinger : kLinger;
  if (outcome.status.ok()) return linger;
  const bool had_all_members = outcome.last_status.view().epoch() > 0;
  const bool has_metrics = !absl::GetFlag(FLAGS_metrics_listen).empty();
  return std::max(
      {linger, has_metrics ? kMetricsLinger : absl::ZeroDuration(),
       had_all_members ? absl::ZeroDuration() : absl::Seconds(job.membership().lease_seconds())});
}

// Returns early on one of these signals: its number. Otherwise 0.
int Linger(absl::Duration duration, std::initializer_list<int> signals = {SIGINT, SIGTERM}) {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : signals) sigaddset(&ends, signal);
  const timespec timeout = absl::ToTimespec(duration);
  return std::max(sigtimedwait(&ends, nullptr, &timeout), 0);
}

// Writes under another name first: a reader never sees half of the file.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary, std::ios::trunc);
  file << text;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", path, "; expected a writable folder"));
  }
  return absl::OkStatus();
}

// Blocks the signals of sigwait in this thread, and in every thread started from now on.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

CoordinatorProcess::Options ProcessOptions(const v1::JobSpec& job) {
  CoordinatorProcess::Options options;
  options.job = job;
  options.context.keys = absl::GetFlag(FLAGS_keys);
  options.context.insecure = absl::GetFlag(FLAGS_insecure);
  options.context.health_listen = absl::GetFlag(FLAGS_health_listen);
  options.context.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.listen = absl::GetFlag(FLAGS_listen);
  options.max_connections = absl::GetFlag(FLAGS_max_connections);
  options.http_listen = absl::GetFlag(FLAGS_http_listen);
  options.state = absl::GetFlag(FLAGS_state);
  options.takes_over = absl::GetFlag(FLAGS_take_over);
  options.on_end = [] { kill(getpid(), SIGUSR1); };
  return options;
}

// Waits for the job's end, and for those who ask how it was. SIGINT and SIGTERM end the job. Sets
// `is_terminated` after a SIGTERM. The error is that of a coordinator without which the job goes
// on.
absl::StatusOr<JobOutcome> AwaitEnd(CoordinatorProcess& process, const v1::JobSpec& job,
                                    const sigset_t& signals, bool* is_terminated) {
  // Anybody may send a SIGUSR1. The job has ended only if the outcome is set.
  std::string interruption;
  while (!process.has_ended() && interruption.empty()) {
    RETURN_IF_ERROR(process.lost());
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal == SIGUSR1) continue;
    *is_terminated = signal == SIGTERM;
    interruption = absl::StrCat("interrupted by SIG", sigabbrev_np(signal));
    process.Interrupt(interruption);
  }
  // The end is kept first. A disk that fails must not hold this process.
  const absl::Duration most = absl::Seconds(job.membership().lease_seconds()) + absl::Seconds(1);
  if (!process.has_ended() && Linger(most, {SIGUSR1}) == 0 && !process.has_ended()) {
    return absl::CancelledError(absl::StrCat(interruption, "; the end of the job was not kept"));
  }
  JobOutcome ended = process.outcome();
  // The job may have ended for another reason just before.
  if (ended.status == absl::AbortedError(interruption)) {
    ended.status = absl::CancelledError(interruption);
  }
  const int late_signal =
      Linger(!interruption.empty() ? kLinger : LingerTime(job, ended, process.has_page()));
  *is_terminated = *is_terminated || late_signal == SIGTERM;
  // Who ends all processes of a job may reach a member first.
  if ((late_signal != 0 || !interruption.empty()) &&
      absl::StrContains(ended.status.message(), kAskedToEnd)) {
    ended.status = absl::CancelledError(ended.status.message());
  }
  return ended;
}

// INVALID_ARGUMENT for flags and jobs that are wrong, before anything has begun. Sets
// `is_terminated` if a SIGTERM has ended the job.
absl::Status Coordinate(const Args& args, bool* is_terminated) {
  absl::StatusOr<v1::JobSpec> read = EffectiveJob(absl::GetFlag(FLAGS_job), args);
  if (!read.ok()) return absl::InvalidArgumentError(read.status().message());
  v1::JobSpec job = *std::move(read);
  if (absl::GetFlag(FLAGS_take_over) && absl::GetFlag(FLAGS_state).empty()) {
    return absl::InvalidArgumentError(
        "--take_over: expected --state=DIR, the folder of the job's state, too");
  }
  // Servers may run in other folders.
  ResolveModelPaths(/*folder=*/"", &job);
  const sigset_t signals = BlockSignals();
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorProcess> process,
                   CoordinatorProcess::Start(ProcessOptions(job)));
  LOG(INFO) << "job " << job.name() << ": waiting at " << process->address() << " for "
            << job.cluster().num_servers() << " servers and " << job.cluster().num_workers()
            << " workers";
  RETURN_IF_ERROR(WriteFile(absl::GetFlag(FLAGS_port_file), process->address() + "\n"));
  const absl::StatusOr<JobOutcome> awaited = AwaitEnd(*process, job, signals, is_terminated);
  process->Stop();
  RETURN_IF_ERROR(awaited.status());
  const JobOutcome& ended = *awaited;
  const std::string summary = SummaryJson(job, ended) + "\n";
  const absl::Status written = WriteFile(absl::GetFlag(FLAGS_summary_json), summary);
  process->FinishState();
  RETURN_IF_ERROR(ended.status);
  std::cout << summary << std::flush;
  return written;
}

std::string Help() {
  return absl::StrCat(kUsage, ProgramFlagsHelp(kFlags), kJobFlagsUsage, JobFlagsHelp());
}

// Removes the job flags from the command line. The others are the flags of this file.
absl::Status ParseFlags(Args args) {
  v1::JobSpec unused;
  RETURN_IF_ERROR(ApplyJobFlags(&args, &unused));
  RETURN_IF_ERROR(ParseProgramFlags(std::move(args), JobFlagSpellings()));
  return SetLogFormat(absl::GetFlag(FLAGS_log_format));
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0], capstan::kUsage);
  std::vector<std::string> args(argv, argv + argc);
  absl::Status parsed = capstan::BeginRole("coordinator", capstan::Help(), &args);
  if (parsed.ok()) parsed = capstan::ParseFlags(args);
  if (!parsed.ok()) {
    capstan::EndProgram("capstan_coordinator", parsed, /*is_usage_error=*/true);
  }
  capstan::SendGrpcLogsToVlog();
  bool is_terminated = false;
  const absl::Status status = capstan::Coordinate(args, &is_terminated);
  if (absl::IsCancelled(status) && is_terminated) {
    capstan::EndTerminatedProgram("capstan_coordinator", status);
  }
  capstan::EndProgram("capstan_coordinator", status,
                      /*is_usage_error=*/absl::IsInvalidArgument(status));
}
