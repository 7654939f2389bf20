#ifndef DEPLOY_CLI_RUN_SETUP_H_
#define DEPLOY_CLI_RUN_SETUP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/grpc/grpc_security.h"
#include "deploy/cli/commands.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/rendezvous.h"
#include "deploy/launch/restart_plan.h"
#include "proto/job.pb.h"

namespace capstan {

// What `capstan run` needs on the machine that coordinates and on the others.

// The job flags. They begin with the model of --worker_command, and with the numbers of servers and
// workers of a rendezvous: what is given comes later, and counts.
std::vector<std::string> JobFlagsWithDefaults(const RunOptions& options);

// The valid job of the file and of `flags`, with paths that count from every folder.
// INVALID_ARGUMENT also unless its workers are programs if and only if there is a --worker_command.
absl::StatusOr<v1::JobSpec> JobOfRun(const RunOptions& options, std::vector<std::string> flags);

// Options for the processes of this machine, without their folder and their job. The errors of
// FindProgram.
absl::StatusOr<LocalJob::Options> ProcessOptions(const RunOptions& options);

// Makes the processes those of one machine of several.
void SetNode(const Rendezvous& nodes, const NodeRole& role, LocalJob::Options& processes);

// What follows failures, and losses of members on this machine; nothing with --restart=never. The
// error of RestartPlan::Create.
absl::StatusOr<std::optional<RestartPlan>> MakeRestartPlan(const RunOptions& options,
                                                           const v1::JobSpec& job);

// Gives the workers of this machine their ranks, if they are known, and says where their programs
// meet. The errors of CheckRanks and MeetHere.
absl::Status SetRanks(const v1::ClusterSpec& cluster, const std::optional<Rendezvous>& nodes,
                      LocalJob::Options& processes);

// The errors of PrepareRunFolder and PrepareHistoryFolder.
absl::StatusOr<OpenFile> PrepareFolders(const RunOptions& options, const std::string& run_dir);

// Also finds wrong keys before anything starts.
absl::StatusOr<SecurityPointer> OpenRunSecurity(const RunOptions& options);

// Checks that a file can be written at `path`, of --summary_json. Empty: no file is wanted.
absl::Status CheckSummaryPath(const std::string& path);

// Copies the summary in the file `path` to --summary_json, if that is given.
absl::Status CopySummary(const RunOptions& options, const std::string& path);

// Adds the folder of the logs to an error.
absl::Status WithLogs(const absl::Status& result, const std::string& run_dir);

// The same after the end of a job. If it has failed, copies its summary as CopySummary, if there is
// one.
absl::Status EndOfRun(const RunOptions& options, const absl::Status& result,
                      const std::string& run_dir);

}  // namespace capstan

#endif  // DEPLOY_CLI_RUN_SETUP_H_
