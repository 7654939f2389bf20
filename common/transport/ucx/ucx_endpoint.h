#ifndef COMMON_TRANSPORT_UCX_UCX_ENDPOINT_H_
#define COMMON_TRANSPORT_UCX_UCX_ENDPOINT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/buffer_pool.h"
#include "common/transport/ucx/grpc_ucx_stream.h"
#include "common/transport/ucx/ucx_connection.h"
#include "common/transport/ucx/ucx_thread.h"

namespace capstan {

// A connection to one server over UCX. The first exchange opens it by a gRPC stream, and it ends
// with the stream. Open exchanges are then answered with UNAVAILABLE, or with UNIMPLEMENTED if UCX
// cannot connect the two ends. The next exchange opens a new connection. A gradient counts as
// delivered once it is released (UcxSender::Send). Callbacks run on the UCX thread. Thread-safe.
class UcxEndpoint : public ParameterEndpoint, private UcxConnection::Receiver {
 public:
  // `address` is host:port of the server's UcxService. UcxConnection::Prepare has prepared
  // `thread`. `thread` and `clock` outlive the endpoint.
  UcxEndpoint(std::string address, UcxThread* thread, Clock* clock, const UcxMember& member = {})
      : address_(std::move(address)),
        thread_(thread),
        clock_(clock),
        is_encrypted_(member.security->is_tls()),
        opener_(address_, clock, member) {}
  // Answers open exchanges. Must not run within a callback.
  ~UcxEndpoint() override;

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  struct Open {
    DeliveredCallback delivered;  // null once it has run
    ReplyCallback done;
    absl::Span<float> destination;

    void Answer(ExchangeReply reply) {
      // The reply may come before UCX has released the request.
      if (delivered) std::exchange(delivered, nullptr)();
      done(std::move(reply));
    }
  };
  struct Waiting {
    uint64_t id;
    ExchangeRequest request;
  };
  class ArrivingReply;
  using StreamPointer = GrpcUcxStream::StreamPointer;

  // All methods below run on the thread.
  void ExchangeOnThread(ExchangeRequest&& request, DeliveredCallback delivered, ReplyCallback done);
  void OpenStream();
  void Connect(const v1::UcxInvitation& invitation);
  void Send(uint64_t id, ExchangeRequest&& request);
  void EndIfNotOpen();
  // Ends the stream and the connection, and answers open exchanges with the reason in `status`.
  void End(const absl::Status& status);
  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                         size_t payload_bytes) override;
  // Ends the connection, because the server has broken the protocol. Returns null.
  std::unique_ptr<UcxIncoming> Refuse(const absl::Status& status);
  void OnBroken(const absl::Status& status) override;
  void AnswerAll(const absl::Status& status);

  const std::string address_;
  UcxThread* const thread_;
  Clock* const clock_;
  const bool is_encrypted_;  // the stream, not UCX
  BufferPool buffers_;

  // Used by the thread alone:
  StreamPointer stream_;                       // null until the first exchange, and once it ended
  std::unique_ptr<UcxConnection> connection_;  // null until the stream has brought an invitation
  Clock::TimerId late_ = 0;                    // deadline for opening the connection
  std::deque<Waiting> waiting_;                // for the invitation
  bool is_closing_ = false;
  bool has_been_open_ = false;  // an earlier connection was open
  uint64_t last_request_id_ = 0;
  absl::flat_hash_map<uint64_t, Open> open_;
  std::string header_;  // of the latest request

  GrpcUcxOpener opener_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_ENDPOINT_H_
