#ifndef DEPLOY_CLI_RUN_ON_HOSTS_H_
#define DEPLOY_CLI_RUN_ON_HOSTS_H_

#include "absl/status/status.h"
#include "deploy/cli/commands.h"

namespace capstan {

// `capstan run --hosts`: brings the programs, the job and its keys to the hosts, runs
// `capstan run --rendezvous` on each of them, and fetches their logs. The results of RunCommand.
absl::Status RunOnHosts(const RunOptions& options);

}  // namespace capstan

#endif  // DEPLOY_CLI_RUN_ON_HOSTS_H_
