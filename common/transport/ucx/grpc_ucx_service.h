#ifndef COMMON_TRANSPORT_UCX_GRPC_UCX_SERVICE_H_
#define COMMON_TRANSPORT_UCX_GRPC_UCX_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include "common/transport/grpc/stream_limit.h"
#include "common/transport/ucx/ucx_transport.h"
#include "proto/ucx_service.grpc.pb.h"

namespace capstan {

// Invites workers to connections over UCX. A connection ends with its gRPC stream. A stream beyond
// `streams` ends at once, with the reason. Thread-safe.
class GrpcUcxService final : public v1::UcxService::CallbackService {
 public:
  // Both outlive the gRPC server. Other services may share `streams`. Null: no limit.
  explicit GrpcUcxService(UcxTransport::Listener* listener, StreamLimit* streams = nullptr)
      : listener_(listener), streams_(streams) {}

  grpc::ServerWriteReactor<v1::UcxInvitation>* OpenUcx(grpc::CallbackServerContext* context,
                                                       const v1::OpenUcxRequest* request) override;

 private:
  UcxTransport::Listener* const listener_;
  StreamLimit* const streams_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_GRPC_UCX_SERVICE_H_
