#ifndef COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_
#define COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <utility>

#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "proto/parameter_service.grpc.pb.h"

namespace capstan {

// Serves an endpoint over gRPC. Copies only small values sent together. No thread waits. Whatever
// clients do, the server bounds the memory of each stream: one received message,
// GrpcServer::kStreamBytes read ahead by the library, and the replies of BoundedReplies. While a
// client does not read its replies, its requests are not read. To a client with receipts,
// undelivered values stay within the credit of `order`. Thread-safe.
class GrpcParameterService final
    : public v1::ParameterService::WithRawCallbackMethod_Exchange<v1::ParameterService::Service> {
 public:
  // `endpoint` must have taken a request's gradient before its Exchange returns, as shards do: the
  // stream reads its next request then. A stream's replies hold at most `max_inflight_bytes`. A
  // stream beyond `streams` ends at once, with the reason, and so does one that `guard` refuses.
  // Other services may share both. Null: no limit. All outlive the gRPC server.
  explicit GrpcParameterService(ParameterEndpoint* endpoint, uint64_t max_inflight_bytes = 64 << 20,
                                ReplyOrder order = ReplyOrder(), StreamLimit* streams = nullptr,
                                CallGuard* guard = nullptr)
      : endpoint_(endpoint),
        max_inflight_bytes_(max_inflight_bytes),
        order_(std::move(order)),
        streams_(streams),
        guard_(guard) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override;

 private:
  ParameterEndpoint* const endpoint_;
  const uint64_t max_inflight_bytes_;
  const ReplyOrder order_;
  StreamLimit* const streams_;
  CallGuard* const guard_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_
