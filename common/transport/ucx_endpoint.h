#ifndef COMMON_TRANSPORT_UCX_ENDPOINT_H_
#define COMMON_TRANSPORT_UCX_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/tensor/buffer_pool.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/ucx_connection.h"
#include "common/transport/ucx_thread.h"

namespace capstan {

// A connection to one server over UCX: shared memory within a host, what UCX finds best between
// hosts. Opened with the first exchange and again after it broke; then all open exchanges are
// UNAVAILABLE. Gradients of less than UcxSender::kFetchedBytes are sent when they have left
// this process. Callbacks run on the UCX thread. Thread-safe.
class UcxEndpoint : public ParameterEndpoint, private UcxConnection::Receiver {
 public:
  // `address` is the server's host:port for UCX. `thread` outlives the endpoint.
  UcxEndpoint(std::string address, UcxThread* thread)
      : address_(std::move(address)), thread_(thread) {}
  // Answers what is open. Not to be called by a callback.
  ~UcxEndpoint() override;

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override;

 private:
  struct Open {
    SentCallback sent;  // null once it has run
    ReplyCallback done;
    absl::Span<float> destination;

    void Answer(ExchangeReply reply) {
      // A reply may overtake the news that its request was sent.
      if (sent) std::exchange(sent, nullptr)();
      done(std::move(reply));
    }
  };
  class ArrivingReply;

  // On the thread, as all below.
  void ExchangeOnThread(ExchangeRequest request, SentCallback sent, ReplyCallback done);
  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                         size_t payload_bytes) override;
  void OnBroken(const absl::Status& status) override;
  void AnswerAll(const absl::Status& status);

  const std::string address_;
  UcxThread* const thread_;
  BufferPool buffers_;

  std::unique_ptr<UcxConnection> connection_;  // null until the first exchange, and when it broke
  bool is_closing_ = false;
  uint64_t last_request_id_ = 0;
  absl::flat_hash_map<uint64_t, Open> open_;
  std::string header_;  // of the latest request
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_ENDPOINT_H_
