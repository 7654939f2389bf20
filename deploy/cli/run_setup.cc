#include "deploy/cli/run_setup.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "common/job/job_properties.h"
#include "common/job/load_job.h"
#include "common/net/own_address.h"
#include "deploy/launch/run_folder.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

// --model=program would hide another model of the file.
absl::Status CheckIsForPrograms(const std::string& job_file) {
  if (job_file.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::JobSpec file, LoadJobFile(job_file));
  const v1::ModelSpec& model = file.model();
  if (!model.has_type() || model.type() == v1::ModelSpec::PROGRAM) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--worker_command: expected a job for programs, got the model ",
                   v1::ModelSpec::Type_Name(model.type()), " in ", job_file,
                   "; write model { type: PROGRAM } there, or leave out --worker_command"));
}

}  // namespace

std::vector<std::string> JobFlagsWithDefaults(const RunOptions& options) {
  std::vector<std::string> flags = options.job_flags;
  if (const auto& nodes = options.rendezvous; nodes.has_value()) {
    const std::string counts[] = {
        absl::StrCat("--num_servers=", nodes->num_nodes * nodes->servers_per_node),
        absl::StrCat("--num_workers=", nodes->num_nodes * nodes->workers_per_node)};
    flags.insert(flags.begin(), std::begin(counts), std::end(counts));
  }
  if (!options.program.command.empty()) flags.insert(flags.begin(), "--model=program");
  return flags;
}

namespace {

// The worker reads the standard input of this process.
absl::Status CheckStandardInput(const RunOptions& options, const v1::JobSpec& job) {
  if (job.data().path() != kStandardInputPath) return absl::OkStatus();
  if (options.rendezvous.has_value() || options.hosts.has_value()) {
    return absl::InvalidArgumentError(
        "--data_path: expected a file that the workers' machines have, as the job runs on several, "
        "got -");
  }
  if (!isatty(STDIN_FILENO)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--data_path: expected samples on standard input, got a terminal; use a pipe, such as zcat "
      "clicks.gz | capstan run --data_path=- ...");
}

}  // namespace

absl::StatusOr<v1::JobSpec> JobOfRun(const RunOptions& options, std::vector<std::string> flags) {
  const bool has_command = !options.program.command.empty();
  if (has_command) RETURN_IF_ERROR(CheckIsForPrograms(options.job_file));
  ASSIGN_OR_RETURN(v1::JobSpec job, EffectiveJob(options.job_file, std::move(flags)));
  const bool is_for_programs = job.model().type() == v1::ModelSpec::PROGRAM;
  if (!has_command && is_for_programs) {
    return absl::InvalidArgumentError(
        "--worker_command: expected the command of the workers, as the job's model is program, got "
        "none; add it, as in --worker_command=\"python train.py\"");
  }
  if (has_command && !is_for_programs) {
    return absl::InvalidArgumentError(
        "--model: expected program, as there is a --worker_command, got another; leave out one of "
        "the two");
  }
  // Paths in flags count from the current folder, but the effective job is saved in another one.
  ResolvePaths(/*folder=*/"", &job);
  RETURN_IF_ERROR(CheckStandardInput(options, job));
  return job;
}

absl::StatusOr<LocalJob::Options> ProcessOptions(const RunOptions& options) {
  LocalJob::Options processes;
  ASSIGN_OR_RETURN(processes.coordinator_program,
                   FindProgram(options.own_path, "server/capstan_coordinator"));
  ASSIGN_OR_RETURN(processes.server_program,
                   FindProgram(options.own_path, "server/capstan_server"));
  ASSIGN_OR_RETURN(processes.worker_program,
                   FindProgram(options.own_path, "worker/capstan_worker"));
  processes.devices = options.devices;
  processes.program = options.program;
  processes.record_history = options.record_history;
  processes.has_trace = options.has_trace;
  processes.keys = options.keys;
  processes.is_insecure = options.is_insecure;
  processes.http_listen = options.http_listen;
  return processes;
}

void SetNode(const Rendezvous& nodes, const NodeRole& role, LocalJob::Options& processes) {
  processes.num_servers = nodes.servers_per_node;
  processes.num_workers = nodes.workers_per_node;
  processes.has_all_members = false;
  const bool is_ipv6 = nodes.host.find(':') != nodes.host.npos;
  processes.listen = HostAndPort(is_ipv6 ? "::" : "0.0.0.0", nodes.port);
  processes.coordinator_host = is_ipv6 ? absl::StrCat("[", nodes.host, "]") : nodes.host;
  processes.network = role.network;
}

absl::StatusOr<std::optional<RestartPlan>> MakeRestartPlan(const RunOptions& options,
                                                           const v1::JobSpec& job) {
  RestartPlan::Options plan;
  if (options.most_restarts == 0) {
    if (!options.replaces_servers) return std::nullopt;
    plan.only_servers = true;
    return RestartPlan::Create(plan);
  }
  plan.most = options.most_restarts;
  const v1::MembershipSpec& membership = job.membership();
  plan.allows_other_bits = membership.has_allow_other_bits() && membership.allow_other_bits();
  plan.only_replaces = options.rendezvous.has_value();
  if (!plan.only_replaces) plan.checkpoint_dir = job.checkpoint().dir();
  return RestartPlan::Create(plan);
}

absl::Status SetRanks(const v1::ClusterSpec& cluster, const std::optional<Rendezvous>& nodes,
                      LocalJob::Options& processes) {
  processes.program.world_size = static_cast<int>(cluster.num_workers());
  RETURN_IF_ERROR(CheckRanks(processes.program, processes.num_workers));
  if (!nodes.has_value()) return MeetHere(processes.program);
  MeetAt(nodes->host, processes.program);
  return absl::OkStatus();
}

absl::StatusOr<OpenFile> PrepareFolders(const RunOptions& options, const std::string& run_dir) {
  ASSIGN_OR_RETURN(OpenFile lock, PrepareRunFolder(run_dir, options.job_file));
  if (!options.record_history.empty()) {
    RETURN_IF_ERROR(PrepareHistoryFolder(options.record_history));
  }
  return lock;
}

absl::StatusOr<SecurityPointer> OpenRunSecurity(const RunOptions& options) {
  return GrpcSecurity::Open({options.keys, options.is_insecure, options.clock, /*listens=*/true});
}

absl::Status CheckSummaryPath(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code ignored;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  const bool exists = fs::exists(path, ignored);
  std::string problem;
  if (!fs::is_directory(folder, ignored)) {
    problem = absl::StrCat("there is no folder ", folder.string());
  } else if (fs::is_directory(path, ignored)) {
    problem = "it is a folder";
  } else if (access(exists ? path.c_str() : folder.c_str(), W_OK) != 0) {
    problem = std::strerror(errno);
  } else {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--summary_json: expected a file that can be written, got \"", path, "\" (",
                   problem, "); make its folder, or choose another"));
}

absl::Status CopySummary(const RunOptions& options, const std::string& path) {
  if (options.summary_json.empty()) return absl::OkStatus();
  std::error_code error;
  fs::copy_file(path, options.summary_json, fs::copy_options::overwrite_existing, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--summary_json: expected to write ",
                                             options.summary_json, ", but cannot (",
                                             error.message(), "); it is at ", path));
}

absl::Status WithLogs(const absl::Status& result, const std::string& run_dir) {
  if (result.ok()) return result;
  return absl::Status(result.code(), absl::StrCat(result.message(), "; logs in ", run_dir));
}

absl::Status EndOfRun(const RunOptions& options, const absl::Status& result,
                      const std::string& run_dir) {
  if (result.ok()) return result;
  const std::string path = absl::StrCat(run_dir, "/", kSummaryFile);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return WithLogs(result, run_dir);
  const absl::Status copied = CopySummary(options, path);
  const std::string but = copied.ok() ? "" : absl::StrCat("; ", copied.message());
  return WithLogs(absl::Status(result.code(), absl::StrCat(result.message(), but)), run_dir);
}

}  // namespace capstan
