#ifndef COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_
#define COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <utility>

#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_exchange_stream.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "proto/parameter_service.grpc.pb.h"

namespace capstan {

// Serves an endpoint to workers over gRPC, as ExchangeStreams says. Thread-safe.
class GrpcParameterService final
    : public v1::ParameterService::WithRawCallbackMethod_Exchange<v1::ParameterService::Service> {
 public:
  // See ExchangeStreams. A stream's replies hold at most `max_inflight_bytes`.
  explicit GrpcParameterService(ParameterEndpoint* endpoint, uint64_t max_inflight_bytes = 64 << 20,
                                ReplyOrder order = ReplyOrder(), StreamLimit* streams = nullptr,
                                CallGuard* guard = nullptr)
      : served_{endpoint, SenderRole::kWorker, max_inflight_bytes, std::move(order), streams,
                guard} {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override {
    return ServeStream(served_, kExchangeCall, context);
  }

 private:
  const ExchangeStreams served_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_
