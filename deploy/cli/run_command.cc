#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/job/load_job.h"
#include "common/routing/table_check.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/grpc_status_client.h"
#include "deploy/cli/join_job.h"
#include "deploy/cli/report/progress_log.h"
#include "deploy/cli/run_on_hosts.h"
#include "deploy/cli/run_setup.h"
#include "deploy/cli/text/summary.h"
#include "deploy/launch/job_runner.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/progress_display.h"
#include "deploy/launch/restart_plan.h"
#include "deploy/launch/run_folder.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/job_outcome.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

// Checks that the job can go on from a checkpoint if it is to start again. Without checkpoints,
// only lost workers and servers are replaced.
absl::Status CheckRestart(const RunOptions& options, const v1::JobSpec& job) {
  if (options.most_restarts == 0) return absl::OkStatus();
  const v1::CheckpointSpec& checkpoint = job.checkpoint();
  const bool starts_again = !checkpoint.dir().empty() && !options.rendezvous.has_value();
  if (starts_again && checkpoint.steps() == 0 && checkpoint.seconds() == 0) {
    return absl::InvalidArgumentError(
        "--restart: expected a job that writes checkpoints, got one that does so on request only; "
        "add --checkpoint_steps=STEPS or --checkpoint_seconds=SECONDS");
  }
  if (job.stay()) {
    return absl::InvalidArgumentError(
        "--restart: expected a job with an end, got --stay; leave out one of the two");
  }
  if (job.data().path() == kStandardInputPath) {
    return absl::InvalidArgumentError(
        "--restart: expected samples that can be read again, got --data_path=-, standard input; "
        "leave out one of the two");
  }
  if (options.record_history.empty() || !starts_again) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--record_history: expected a job that lives once, got --restart with --checkpoint_dir: each "
      "life from a checkpoint has a history of its own; leave out one of the three");
}

absl::Status CheckRendezvous(const RunOptions& options) {
  if (!options.rendezvous.has_value()) return absl::OkStatus();
  if (options.keys.empty() && !options.is_insecure) {
    return absl::InvalidArgumentError(
        "--rendezvous: expected --keys=DIR, with the same keys on each machine (capstan keys makes "
        "them), or --insecure in a network of which all machines are trusted; got neither");
  }
  return absl::OkStatus();
}

absl::StatusOr<LocalJob::Options> PrepareJob(const RunOptions& options, const v1::JobSpec& job,
                                             const NodeRole& role) {
  ASSIGN_OR_RETURN(LocalJob::Options prepared, ProcessOptions(options));
  prepared.run_dir = options.run_dir.empty() ? DefaultRunFolder(job.name(), options.clock->Now())
                                             : options.run_dir;
  prepared.job_file = absl::StrCat(prepared.run_dir, "/", kEffectiveJobFile);
  prepared.keeps_state = options.replaces_servers;
  prepared.num_servers = static_cast<int>(job.cluster().num_servers());
  prepared.num_workers = static_cast<int>(job.cluster().num_workers());
  prepared.shares_input = job.data().path() == kStandardInputPath;
  prepared.rpc_deadline_seconds = job.membership().rpc_deadline_seconds();
  if (options.rendezvous.has_value()) SetNode(*options.rendezvous, role, prepared);
  RETURN_IF_ERROR(SetRanks(job.cluster(), options.rendezvous, prepared));
  prepared.has_all_members =
      static_cast<uint32_t>(prepared.num_servers) == job.cluster().num_servers() &&
      static_cast<uint32_t>(prepared.num_workers) == job.cluster().num_workers();
  return prepared;
}

// Tells where the job goes on from, and each failure of a checkpoint once.
class CheckpointNotices {
 public:
  CheckpointNotices(const v1::CheckpointSpec& spec, ProgressDisplay* display)
      : spec_(spec), display_(*display) {}

  void Show(const v1::CheckpointStatus& checkpoint) {
    // Later lives are told of by their restarts.
    if (!std::exchange(is_begun_, true)) ShowBegin(checkpoint);
    if (std::exchange(error_, checkpoint.error()) == checkpoint.error()) return;
    if (error_.empty()) return;
    display_.Notice(
        absl::StrCat("a checkpoint has failed: ", PrintableText(error_), "; the job goes on"));
  }

 private:
  void ShowBegin(const v1::CheckpointStatus& checkpoint) {
    if (!checkpoint.restored().empty()) {
      const std::string name = fs::path(checkpoint.restored() + "/").parent_path().filename();
      display_.Notice(
          absl::StrCat("goes on from step ", checkpoint.restored_step(), " (", name, ")"));
    } else if (spec_.restore() == kLatestCheckpoint) {
      display_.Notice(
          absl::StrCat("begins anew: there is no complete checkpoint in ", spec_.dir()));
    }
  }

  const v1::CheckpointSpec spec_;
  ProgressDisplay& display_;
  bool is_begun_ = false;
  std::string error_;
};

// Where the coordinator listens, with the command that asks it.
std::string CoordinatorNotice(const RunOptions& options, const std::string& address) {
  if (options.rendezvous.has_value()) return absl::StrCat(kMeetingNotice, address);
  const std::string keys = options.keys.empty() ? "" : absl::StrCat(" --keys=", options.keys);
  return absl::StrCat("coordinator: ", address, "; capstan status --coordinator=", address, keys);
}

// Warns of rows that end with the job.
void WarnOfRows(const v1::JobSpec& job, GrpcStatusClient& client, ProgressDisplay& display) {
  const absl::StatusOr<v1::GetStatusReply> status = client.GetStatus(/*with_tables=*/true);
  if (!status.ok()) return;
  const std::string warning = WarningOfLostRows(job, status->view().tables());
  if (!warning.empty()) display.Notice(warning);
}

// `last_status` becomes the last answer of a coordinator.
absl::Status RunJob(const RunOptions& options, const v1::JobSpec& job,
                    const SecurityPointer& security, RestartPlan* restarts, LocalJob* local_job,
                    v1::GetStatusReply* last_status) {
  std::string client_address;
  std::unique_ptr<GrpcStatusClient> client;
  ProgressDisplay display({options.out, options.terminal, job.cluster(), options.is_quiet});
  CheckpointNotices notices(job.checkpoint(), &display);
  bool has_seen_tables = false;
  JobRunner::Options runner;
  runner.job = local_job;
  ProgressLog log(absl::StrCat(local_job->run_dir(), "/", kProgressFile));
  const absl::Time start = options.clock->Now();
  runner.get_status = [&](const std::string& address) {
    if (std::exchange(client_address, address) != address) {
      client = nullptr;
      display.Notice(CoordinatorNotice(options, address));
    }
    if (client == nullptr) {
      client = std::make_unique<GrpcStatusClient>(address, options.clock, security);
    }
    absl::StatusOr<v1::GetStatusReply> status = client->GetStatus(/*with_tables=*/false);
    if (!status.ok()) {
      // A job that starts again has another coordinator there. Its own channel finds it at once.
      client = nullptr;
      return status;
    }
    *last_status = *status;
    log.Append(options.clock->Now() - start, *status);
    notices.Show(status->checkpoint());
    const bool has_tables = status->view().epoch() > 0;
    if (has_tables && !std::exchange(has_seen_tables, true)) WarnOfRows(job, *client, display);
    return status;
  };
  runner.report_early_failure = [&](v1::HeartbeatRequest::Role role, const std::string& reason) {
    return GrpcStatusClient(client_address, options.clock, security)
        .ReportEarlyFailure(role, reason);
  };
  runner.take_interrupt = options.take_interrupt;
  runner.restarts = restarts;
  runner.lease = absl::Seconds(job.membership().lease_seconds());
  runner.display = &display;
  runner.clock = options.clock;
  const absl::Status result = JobRunner(runner).Run();
  // A job without a progress log has not failed.
  if (absl::Status kept = log.Close(); !kept.ok()) display.Notice(std::string(kept.message()));
  return result;
}

// Writes the summary of a job that has failed to `path`, unless its coordinator has done so.
void KeepFailedSummary(const v1::JobSpec& job, const absl::Status& failure,
                       const v1::GetStatusReply& last_status, const std::string& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return;
  JobOutcome outcome;
  outcome.status = failure;
  outcome.last_status = last_status;
  for (const v1::Progress& progress : last_status.progress()) {
    outcome.training_time = std::max(outcome.training_time, absl::Seconds(progress.seconds()));
  }
  for (const v1::WorkerInfo& worker : last_status.view().workers()) {
    outcome.workers_lost += !worker.is_live();
  }
  outcome.workers_lost += last_status.replaced_workers_size();
  std::ofstream(path) << SummaryJson(job, outcome) << "\n";
}

// Prints the summary, and copies it to --summary_json.
absl::Status ReportSummary(const RunOptions& options, const std::string& path) {
  std::ostringstream json;
  json << std::ifstream(path).rdbuf();
  ASSIGN_OR_RETURN(const std::string text, FormatSummary(json.str()));
  *options.out << text << std::flush;
  if (options.has_trace) {
    *options.out << "traces: capstan trace " << fs::path(path).parent_path().string() << std::endl;
  }
  return CopySummary(options, path);
}

}  // namespace

absl::StatusOr<int> ReadMostRestarts(absl::string_view restart) {
  if (restart.empty() || restart == kNeverRestart) return 0;
  absl::string_view rest = restart;
  int most = 0;
  if (absl::ConsumePrefix(&rest, "on_failure")) {
    if (rest.empty()) return RestartPlan::kNoLimit;
    if (absl::ConsumePrefix(&rest, ":") && absl::SimpleAtoi(rest, &most) && most > 0) return most;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "flag --restart: expected never, on_failure, or on_failure:N with the largest number of "
      "restarts, 1 or more; got ",
      restart));
}

namespace {

// Runs the job from this machine: the only one, or the one that coordinates.
absl::Status Coordinate(const RunOptions& options, const NodeRole& role) {
  ASSIGN_OR_RETURN(v1::JobSpec job, JobOfRun(options, JobFlagsWithDefaults(options)));
  // A job that starts again ends with the bits of an undisturbed one.
  if (options.most_restarts > 0 && !job.membership().has_allow_other_bits()) {
    job.mutable_membership()->set_allow_other_bits(false);
  }
  // This command starts another process in a lost worker's place.
  if (options.most_restarts > 0 && !job.membership().allow_other_bits() &&
      !job.membership().has_replace_seconds()) {
    constexpr double kForEver = 1e9;
    const double registration = job.membership().registration_seconds();
    job.mutable_membership()->set_replace_seconds(registration > 0 ? registration : kForEver);
  }
  RETURN_IF_ERROR(CheckSummaryPath(options.summary_json));
  RETURN_IF_ERROR(CheckRestart(options, job));
  // Also finds wrong keys before anything starts.
  ASSIGN_OR_RETURN(const SecurityPointer security, OpenRunSecurity(options));
  ASSIGN_OR_RETURN(std::optional<RestartPlan> restarts, MakeRestartPlan(options, job));
  ASSIGN_OR_RETURN(const LocalJob::Options prepared, PrepareJob(options, job, role));
  ASSIGN_OR_RETURN(const OpenFile lock, PrepareFolders(options, prepared.run_dir));
  RETURN_IF_ERROR(SaveJobFile(job, prepared.job_file));
  *options.out << "job " << job.name() << ": " << job.cluster().num_servers() << " servers, "
               << job.cluster().num_workers() << " workers; logs in " << prepared.run_dir
               << std::endl;
  LocalJob local_job(prepared);
  v1::GetStatusReply last_status;
  const absl::Status result =
      RunJob(options, job, security, restarts.has_value() ? &*restarts : nullptr, &local_job,
             &last_status);
  if (!result.ok()) KeepFailedSummary(job, result, last_status, local_job.summary_path());
  RETURN_IF_ERROR(EndOfRun(options, result, prepared.run_dir));
  const std::string counts = restarts.has_value() ? restarts->CountsText() : "";
  if (!counts.empty()) *options.out << counts << std::endl;
  return Annotate(ReportSummary(options, local_job.summary_path()), "job succeeded");
}

}  // namespace

absl::Status RunCommand(const RunOptions& options) {
  if (options.hosts.has_value()) return RunOnHosts(options);
  RETURN_IF_ERROR(CheckRendezvous(options));
  NodeRole role;
  if (options.rendezvous.has_value()) {
    ASSIGN_OR_RETURN(role, FindNodeRole(*options.rendezvous));
    if (!role.coordinates) return JoinJob(options, role);
  }
  return Coordinate(options, role);
}

}  // namespace capstan
