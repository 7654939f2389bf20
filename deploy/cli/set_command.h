#ifndef DEPLOY_CLI_SET_COMMAND_H_
#define DEPLOY_CLI_SET_COMMAND_H_

#include <map>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// The change that the flags consistency, staleness and table_staleness ask for; an empty
// table_staleness takes the list back. INVALID_ARGUMENT, naming the flag, for a bad value, or when
// none of them is there.
absl::StatusOr<v1::SetConsistencyRequest> ReadConsistencyChange(
    const std::map<std::string, std::string>& flags);

// "from step 120 of 400 on: ssp, staleness 4", as a line; another one if the job ends before.
std::string FormatConsistencyReply(const v1::SetConsistencyReply& reply);

// `capstan set`: asks the coordinator at `address` (host:port) for the change, waits until the
// servers have agreed on its first step, and prints it.
absl::Status SetCommand(const std::string& address, const v1::SetConsistencyRequest& request,
                        Clock* clock, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_SET_COMMAND_H_
