#ifndef COMMON_TRANSPORT_GRPC_GRPC_EXCHANGE_STREAM_H_
#define COMMON_TRANSPORT_GRPC_GRPC_EXCHANGE_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"

namespace capstan {

// How a service serves its streams of exchanges. Copies only small values sent together. No thread
// waits. Whatever clients do, the server bounds the memory of each stream: one received message,
// GrpcServer::kStreamBytes read ahead by the library, and the replies of BoundedReplies. While a
// client does not read its replies, its requests are not read. To a client with receipts,
// undelivered values stay within the credit of `order`. The pointers outlive the gRPC server.
struct ExchangeStreams {
  // Required. Must have taken a request's payload before its Exchange returns, as shards do: the
  // stream reads its next request then.
  ParameterEndpoint* endpoint = nullptr;
  // The clients'. Requests of another role are answered INVALID_ARGUMENT.
  SenderRole role = SenderRole::kWorker;
  // Most bytes of a stream's replies.
  uint64_t max_inflight_bytes = 64 << 20;
  ReplyOrder order = {};
  // A stream beyond it ends at once, with the reason. Other services may share it. Null: no limit.
  StreamLimit* limit = nullptr;
  // So does a stream that it refuses. Other services may share it. Null: all are taken.
  CallGuard* guard = nullptr;
};

// Serves one stream, of the call named `call` as in CallRights.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServeStream(
    const ExchangeStreams& served, absl::string_view call, grpc::CallbackServerContext* context);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_EXCHANGE_STREAM_H_
