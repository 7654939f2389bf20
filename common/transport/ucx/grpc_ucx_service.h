#ifndef COMMON_TRANSPORT_UCX_GRPC_UCX_SERVICE_H_
#define COMMON_TRANSPORT_UCX_GRPC_UCX_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/ucx/ucx_admission.h"
#include "common/transport/ucx/ucx_transport.h"
#include "proto/ucx_service.grpc.pb.h"

namespace capstan {

// Invites workers to connections over UCX. A connection ends with its gRPC stream. A stream beyond
// `streams` ends at once, with the reason. Thread-safe.
class GrpcUcxService final : public v1::UcxService::CallbackService {
 public:
  // All outlive the gRPC server. A stream that `guard` refuses ends at once, with the reason. `job`
  // is the job's name. Other services may share `streams` and `guard`. Null: no limit.
  explicit GrpcUcxService(UcxTransport::Listener* listener, StreamLimit* streams = nullptr,
                          CallGuard* guard = nullptr, std::string job = "")
      : listener_(listener), streams_(streams), guard_(guard), job_(std::move(job)) {}

  grpc::ServerWriteReactor<v1::UcxInvitation>* OpenUcx(grpc::CallbackServerContext* context,
                                                       const v1::OpenUcxRequest* request) override;

 private:
  // Whether, and how, the worker may connect.
  absl::StatusOr<UcxAdmission> Admit(const grpc::CallbackServerContext& context,
                                     const v1::OpenUcxRequest& request);

  UcxTransport::Listener* const listener_;
  StreamLimit* const streams_;
  CallGuard* const guard_;
  const std::string job_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_GRPC_UCX_SERVICE_H_
