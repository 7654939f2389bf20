#include "deploy/cli/join_job.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "deploy/cli/grpc_status_client.h"
#include "deploy/cli/run_setup.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/member_runner.h"
#include "deploy/launch/progress_display.h"
#include "deploy/launch/restart_plan.h"
#include "deploy/launch/run_folder.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

// The job's defaults with the given flags.
absl::StatusOr<v1::JobSpec> JobInFlags(const RunOptions& options) {
  std::vector<std::string> flags = JobFlagsWithDefaults(options);
  v1::JobSpec job;
  RETURN_IF_ERROR(ApplyJobFlags(&flags, &job));
  return job;
}

// How long to wait for the coordinator: as long as it waits for members.
absl::Duration Patience(const v1::JobSpec& told) {
  const double seconds = told.membership().registration_seconds();
  return seconds == 0 ? absl::InfiniteDuration() : absl::Seconds(seconds);
}

// Checks that this machine and the coordinator were told the same.
absl::Status CheckCounts(const Rendezvous& nodes, const v1::ClusterSpec& told,
                         const v1::GetStatusReply& status) {
  if (told.num_servers() == status.num_servers() && told.num_workers() == status.num_workers()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "--nnodes: the coordinator ", nodes.address(), " expects ", status.num_servers(),
      " servers and ", status.num_workers(), " workers, but the flags here say ",
      told.num_servers(), " and ", told.num_workers(), "; give the same flags on each machine"));
}

// Machines may share the folder of the run, so each has one in it.
absl::StatusOr<LocalJob::Options> PrepareMembers(const RunOptions& options, const NodeRole& role,
                                                 const v1::ClusterSpec& cluster,
                                                 const std::string& job_name) {
  ASSIGN_OR_RETURN(LocalJob::Options prepared, ProcessOptions(options));
  SetNode(*options.rendezvous, role, prepared);
  RETURN_IF_ERROR(SetRanks(cluster, options.rendezvous, prepared));
  const std::string run_dir =
      options.run_dir.empty() ? DefaultRunFolder(job_name, options.clock->Now()) : options.run_dir;
  prepared.run_dir = absl::StrCat(run_dir, "/", role.address);
  return prepared;
}

}  // namespace

absl::Status JoinJob(const RunOptions& options, const NodeRole& role) {
  const std::string coordinator = options.rendezvous->address();
  ASSIGN_OR_RETURN(const v1::JobSpec told, JobInFlags(options));
  ASSIGN_OR_RETURN(const SecurityPointer security, OpenRunSecurity(options));
  GrpcStatusClient client(coordinator, options.clock, security);
  const auto get_status = [&client] { return client.GetStatus(/*with_tables=*/false); };
  const auto tell = [&options](const std::string& text) { *options.out << text << std::endl; };
  // A new channel for each question: between calls, gRPC does not go on with a refused one.
  const auto ask_anew = [&] {
    return GrpcStatusClient(coordinator, options.clock, security).GetStatus(/*with_tables=*/false);
  };
  ASSIGN_OR_RETURN(const v1::GetStatusReply found,
                   AwaitCoordinator(coordinator, ask_anew, options.take_interrupt, tell,
                                    Patience(told), options.clock));
  if (found.view().phase() == v1::FAILED) {
    return absl::AbortedError(absl::StrCat("the job failed: ", found.view().reason()));
  }
  RETURN_IF_ERROR(CheckCounts(*options.rendezvous, told.cluster(), found));
  ASSIGN_OR_RETURN(LocalJob::Options prepared,
                   PrepareMembers(options, role, told.cluster(), found.job_name()));
  ASSIGN_OR_RETURN(const OpenFile lock, PrepareFolders(options, prepared.run_dir));
  prepared.rpc_deadline_seconds = told.membership().rpc_deadline_seconds();
  tell(absl::StrCat("job ", found.job_name(), " of ", coordinator, ": ", prepared.num_servers,
                    " servers and ", prepared.num_workers, " workers on this machine; logs in ",
                    prepared.run_dir));
  LocalJob local_job(prepared);
  ProgressDisplay display({options.out, options.terminal, told.cluster(), options.is_quiet});
  ASSIGN_OR_RETURN(std::optional<RestartPlan> restarts, MakeRestartPlan(options, told));
  MemberRunner::Options runner;
  runner.job = &local_job;
  runner.coordinator = coordinator;
  runner.get_status = get_status;
  runner.restarts = restarts.has_value() ? &*restarts : nullptr;
  runner.report_early_failure = [&client](v1::HeartbeatRequest::Role failed,
                                          const std::string& reason) {
    return client.ReportEarlyFailure(failed, reason);
  };
  runner.take_interrupt = options.take_interrupt;
  runner.display = &display;
  runner.clock = options.clock;
  return WithLogs(MemberRunner(runner).Run(), prepared.run_dir);
}

}  // namespace capstan
