#include "common/membership/grpc_coordinator_connection.h"

#include <grpcpp/security/credentials.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/retrying_coordinator.h"

namespace capstan {
namespace {

// A try that hangs for longer is made again, over another connection if need be.
constexpr absl::Duration kLongestTry = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> ConnectToCoordinator(
    const std::string& address, absl::Duration rpc_deadline, Clock* clock, Random jitter) {
  if (address.empty()) {
    return absl::InvalidArgumentError("expected --coordinator=HOST:PORT, got none");
  }
  if (!(rpc_deadline > absl::ZeroDuration())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rpc_deadline_seconds: expected more than 0, got ", absl::ToDoubleSeconds(rpc_deadline)));
  }
  RetryingCoordinator::Options options;
  options.address = address;
  options.rpc_deadline = rpc_deadline;
  return std::make_unique<RetryingCoordinator>(
      options, *clock, jitter,
      std::make_unique<GrpcCoordinatorClient>(
          GrpcCoordinatorClient::MakeChannel(address, grpc::InsecureChannelCredentials()), *clock,
          std::min(rpc_deadline, kLongestTry)));
}

}  // namespace capstan
