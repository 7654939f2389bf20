#ifndef COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_
#define COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <utility>

#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "proto/parameter_service.grpc.pb.h"

namespace capstan {

// The gRPC skin of an endpoint: reads frames where gRPC put them, writes values where they lie, but
// for small ones that go together. No thread waits. Memory is bounded by the server, whatever
// clients do: of each stream there is one message in memory, a request or small ones,
// GrpcServer::kStreamBytes that the library has read ahead, and what BoundedReplies allows. A
// client that does not read its replies is not read from, until it does. Clients that ask for
// receipts are told what has arrived; what they have not received themselves is within the credit
// of `order`. A stream beyond `streams` ends at once, with the reason. Thread-safe.
class GrpcParameterService final
    : public v1::ParameterService::WithRawCallbackMethod_Exchange<v1::ParameterService::Service> {
 public:
  // `endpoint` has taken a request's gradient when its Exchange returns, as shards have: the next
  // request is read then. Replies that wait for one stream's client to read hold at most
  // `max_inflight_bytes`. `endpoint` outlives the gRPC server, and so does `streams`, which other
  // services may share; null: no limit.
  explicit GrpcParameterService(ParameterEndpoint* endpoint, uint64_t max_inflight_bytes = 64 << 20,
                                ReplyOrder order = ReplyOrder(), StreamLimit* streams = nullptr)
      : endpoint_(endpoint),
        max_inflight_bytes_(max_inflight_bytes),
        order_(std::move(order)),
        streams_(streams) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override;

 private:
  ParameterEndpoint* const endpoint_;
  const uint64_t max_inflight_bytes_;
  const ReplyOrder order_;
  StreamLimit* const streams_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_PARAMETER_SERVICE_H_
