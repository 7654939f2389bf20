#ifndef DEPLOY_CLI_JOIN_JOB_H_
#define DEPLOY_CLI_JOIN_JOB_H_

#include "absl/status/status.h"
#include "deploy/cli/commands.h"
#include "deploy/launch/rendezvous.h"

namespace capstan {

// `capstan run` on a machine that does not coordinate: waits for the coordinator, runs this
// machine's servers and workers, and stays until the job ends. The job's file is not read here.
// The results of RunCommand.
absl::Status JoinJob(const RunOptions& options, const NodeRole& role);

}  // namespace capstan

#endif  // DEPLOY_CLI_JOIN_JOB_H_
