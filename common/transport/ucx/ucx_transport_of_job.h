#ifndef COMMON_TRANSPORT_UCX_UCX_TRANSPORT_OF_JOB_H_
#define COMMON_TRANSPORT_UCX_UCX_TRANSPORT_OF_JOB_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/transport/ucx/ucx_transport.h"
#include "proto/job.pb.h"

namespace capstan {

// The transport that `spec` asks for beside gRPC. Null when there is none, and when UCX does not
// start but gRPC is allowed instead; the reason is logged. Else the errors of StartUcxTransport.
// `clock` outlives the transport. `on_blocked` as in UcxTransport::Options.
absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransportOfJob(
    const v1::TransportSpec& spec, Clock* clock,
    std::function<void(const absl::Status&)> on_blocked);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_TRANSPORT_OF_JOB_H_
