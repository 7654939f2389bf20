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

// A connection to one server over UCX: shared memory within a host, RDMA between hosts. Opened with
// the first exchange by a gRPC stream, with which it ends, and again after that; then all open
// exchanges are UNAVAILABLE, or UNIMPLEMENTED when UCX cannot connect the two ends. Gradients of
// less than UcxSender::kFetchedBytes are sent when they have left this process. Callbacks run on
// the UCX thread. Thread-safe.
class UcxEndpoint : public ParameterEndpoint, private UcxConnection::Receiver {
 public:
  // `address` is host:port of the server's UcxService. `thread`, which UcxConnection has prepared,
  // and `clock` outlive the endpoint.
  UcxEndpoint(std::string address, UcxThread* thread, Clock* clock)
      : address_(std::move(address)), thread_(thread), clock_(clock), opener_(address_, clock) {}
  // Answers what is open. Not to be called by a callback.
  ~UcxEndpoint() override;

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  struct Open {
    DeliveredCallback delivered;  // null once it has run
    ReplyCallback done;
    absl::Span<float> destination;

    void Answer(ExchangeReply reply) {
      // A reply may overtake the news that its request was sent.
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

  // On the thread, as all below.
  void ExchangeOnThread(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done);
  void OpenStream();
  void Connect(const v1::UcxInvitation& invitation);
  void Send(uint64_t id, ExchangeRequest request);
  void EndIfNotOpen();
  // Ends the stream and the connection, and answers what is open; `status` says why.
  void End(const absl::Status& status);
  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                         size_t payload_bytes) override;
  // The server does not keep to the protocol: the connection ends. Null.
  std::unique_ptr<UcxIncoming> Refuse(const absl::Status& status);
  void OnBroken(const absl::Status& status) override;
  void AnswerAll(const absl::Status& status);

  const std::string address_;
  UcxThread* const thread_;
  Clock* const clock_;
  BufferPool buffers_;

  // Used by the thread alone:
  StreamPointer stream_;                       // null until the first exchange, and once it ended
  std::unique_ptr<UcxConnection> connection_;  // null until the stream has brought an invitation
  Clock::TimerId late_ = 0;                    // when the connection must be open
  std::deque<Waiting> waiting_;                // for the invitation
  bool is_closing_ = false;
  bool has_been_open_ = false;  // a connection that has ended was
  uint64_t last_request_id_ = 0;
  absl::flat_hash_map<uint64_t, Open> open_;
  std::string header_;  // of the latest request

  GrpcUcxOpener opener_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_ENDPOINT_H_
