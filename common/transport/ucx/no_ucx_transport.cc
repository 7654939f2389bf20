// Of a build with --config=without_ucx.
#include "absl/status/status.h"
#include "common/transport/ucx/ucx_transport.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransport(
    const UcxTransport::Options& /*options*/) {
  return absl::UnimplementedError(
      "this program is built without UCX: use --transport=grpc, or build it without "
      "--config=without_ucx");
}

}  // namespace capstan
