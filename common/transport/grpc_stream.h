#ifndef COMMON_TRANSPORT_GRPC_STREAM_H_
#define COMMON_TRANSPORT_GRPC_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/frame.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/stream_receipts.h"

namespace capstan {

// One life of a worker's stream to a server: exchanges, and receipts of their payloads. Keeps
// itself alive until gRPC is done with it. Thread-safe.
class GrpcStream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public std::enable_shared_from_this<GrpcStream> {
 public:
  using SentCallback = ParameterEndpoint::SentCallback;
  using ReplyCallback = ParameterEndpoint::ReplyCallback;

  // `on_end` is given the stream, once everything is answered and nothing of it runs any more.
  explicit GrpcStream(absl::AnyInvocable<void(std::shared_ptr<GrpcStream>)> on_end)
      : on_end_(std::move(on_end)) {}

  void Start(grpc::GenericStub& stub);

  // False when the stream is broken; then nothing was taken.
  bool Exchange(ExchangeRequest& request, SentCallback& sent, ReplyCallback& done);

  // Ends the stream; what is open is UNAVAILABLE then.
  void Cancel() { context_.TryCancel(); }

  bool is_broken() const;

  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  struct Outgoing {
    uint64_t request_id;
    ExchangeRequest request;
  };
  struct Open {
    SentCallback sent;  // null once it has run, or runs
    ReplyCallback done;
    bool is_telling = false;             // `sent` is running
    std::optional<ExchangeReply> reply;  // that came meanwhile, and must wait for it

    void Answer(ExchangeReply reply) {
      // A reply may overtake the news that its request was received.
      if (sent) std::exchange(sent, nullptr)();
      done(std::move(reply));
    }
  };

  // What goes next, if anything does: the oldest exchanges, or a receipt ahead of them.
  void WriteNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The oldest exchange, and small ones after it.
  void WriteExchangesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A message: a frame, and those that follow.
  void TakeMessage(const Payload& message);
  // Runs `sent`, unless it has run, and then the reply that has come while it ran.
  void TellSent(uint64_t id);
  // Both: false when it closes the stream.
  bool TakeFrame(absl::StatusOr<ReplyFrame> reply);
  bool DeliverReply(ReplyFrame reply);
  // No write starts from now on.
  void Break();
  // Closes the stream of a server that does not keep to the protocol; false.
  bool Refuse(const absl::Status& status);
  void AnswerAll(const grpc::Status& status);

  absl::AnyInvocable<void(std::shared_ptr<GrpcStream>)> on_end_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;  // used by reads alone, one at a time
  std::shared_ptr<GrpcStream> self_;

  mutable Mutex mu_;
  bool is_broken_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_request_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mu_);
  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mu_);
  StreamReceipts receipts_ ABSL_GUARDED_BY(mu_);
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_taking_next_ ABSL_GUARDED_BY(mu_) = false;  // what it causes is written together
  grpc::ByteBuffer message_ ABSL_GUARDED_BY(mu_);     // that is being written
  std::vector<uint64_t> sent_when_written_ ABSL_GUARDED_BY(mu_);  // requests without a payload
  absl::Status refused_ ABSL_GUARDED_BY(mu_);                     // why the stream was closed here
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_STREAM_H_
