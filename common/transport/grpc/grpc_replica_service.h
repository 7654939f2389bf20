#ifndef COMMON_TRANSPORT_GRPC_GRPC_REPLICA_SERVICE_H_
#define COMMON_TRANSPORT_GRPC_GRPC_REPLICA_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>

#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_exchange_stream.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "proto/replica_service.grpc.pb.h"

namespace capstan {

// Serves an endpoint to other servers over gRPC, as ExchangeStreams says: it gets records alone. A
// server without copies does not have the service. Thread-safe.
class GrpcReplicaService final
    : public v1::ReplicaService::WithRawCallbackMethod_Replicate<v1::ReplicaService::Service> {
 public:
  // See ExchangeStreams.
  explicit GrpcReplicaService(ParameterEndpoint* endpoint, StreamLimit* streams = nullptr,
                              CallGuard* guard = nullptr)
      : served_{endpoint, SenderRole::kServer, kMaxInflightBytes, ReplyOrder(), streams, guard} {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Replicate(
      grpc::CallbackServerContext* context) override {
    return ServeStream(served_, kReplicateCall, context);
  }

 private:
  // Of a stream's replies, which have no values.
  static constexpr uint64_t kMaxInflightBytes = 1 << 20;

  const ExchangeStreams served_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_REPLICA_SERVICE_H_
