#ifndef COMMON_MEMBERSHIP_GRPC_COORDINATOR_CONNECTION_H_
#define COMMON_MEMBERSHIP_GRPC_COORDINATOR_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {

// The coordinator at `address` (host:port), asked again while it cannot be reached, for at most
// `rpc_deadline`. `clock` outlives the connection. INVALID_ARGUMENT, naming the flags --coordinator
// and --rpc_deadline_seconds, when the address is empty or the deadline is not positive.
absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> ConnectToCoordinator(
    const std::string& address, absl::Duration rpc_deadline, Clock* clock, Random jitter);

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_GRPC_COORDINATOR_CONNECTION_H_
