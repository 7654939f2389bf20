#ifndef DEPLOY_CLI_STATUS_COMMAND_H_
#define DEPLOY_CLI_STATUS_COMMAND_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Phase, consistency, members, clocks and placement of a job as lines for people.
std::string FormatStatus(const v1::GetStatusReply& status);

// `capstan status`: asks the coordinator at `address` (host:port), and prints its answer.
absl::Status StatusCommand(const std::string& address, Clock* clock, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_STATUS_COMMAND_H_
