#ifndef COMMON_TRANSPORT_GRPC_GRPC_STREAM_H_
#define COMMON_TRANSPORT_GRPC_GRPC_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/frame_stream.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/wire/frame.h"

namespace capstan {

// A client's stream to a server: exchanges, and receipts of their payloads. Cannot be reopened
// after its end. Keeps itself alive until gRPC is done with it. Thread-safe.
class GrpcStream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public std::enable_shared_from_this<GrpcStream> {
 public:
  using DeliveredCallback = ParameterEndpoint::DeliveredCallback;
  using ReplyCallback = ParameterEndpoint::ReplyCallback;

  // Explains why a stream was UNAVAILABLE from its begin. May block for seconds.
  using Explain = std::function<absl::Status(const absl::Status&)>;

  // To the server at `address`, host:port, from a client of `role`. `on_end` runs with the stream
  // as its argument, once all exchanges are answered and no callback runs any more.
  GrpcStream(SecurityPointer security, const std::string& address, SenderRole role, Explain explain,
             absl::AnyInvocable<void(std::shared_ptr<GrpcStream>)> on_end);

  void Start(grpc::GenericStub& stub);

  // False: the stream has ended. Then the arguments are unchanged. If it is only broken, the answer
  // says why, as soon as that is known.
  bool Exchange(ExchangeRequest& request, DeliveredCallback& delivered, ReplyCallback& done);

  // Ends the stream. Open exchanges are then answered UNAVAILABLE.
  void Cancel() { context_.TryCancel(); }

  bool is_broken() const;

  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  struct Open {
    DeliveredCallback delivered;  // null once it runs
    ReplyCallback done;
    bool is_telling = false;             // `delivered` is running
    std::optional<ExchangeReply> reply;  // came while `delivered` was running; waits for its end

    void Answer(ExchangeReply reply) {
      // The reply may come before the receipt of the request.
      if (delivered) std::exchange(delivered, nullptr)();
      done(std::move(reply));
    }
  };

  void WriteNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs `delivered`, unless it has run. Then answers with the reply, if it came meanwhile.
  void TellDelivered(uint64_t id);
  // Both return false if they close the stream.
  bool TakeFrame(absl::StatusOr<ReplyFrame> reply);
  bool DeliverReply(ReplyFrame reply);
  // Allows no more writes.
  void Break();
  // Closes the stream, because the server has broken the protocol. Returns false.
  bool Refuse(const absl::Status& status);
  void AnswerAll(absl::Status status);

  const SecurityPointer security_;
  const std::string address_;
  const SenderRole role_;
  const Explain explain_;
  absl::AnyInvocable<void(std::shared_ptr<GrpcStream>)> on_end_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;  // used by reads alone, one at a time
  bool has_read_ = false;      // used by reads, and by OnDone after them
  std::shared_ptr<GrpcStream> self_;

  mutable Mutex mu_;
  bool is_broken_ ABSL_GUARDED_BY(mu_) = false;  // nothing is written any more
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;  // open exchanges have been answered
  uint64_t last_request_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mu_);
  FrameStream<ExchangeRequest> frames_ ABSL_GUARDED_BY(mu_);
  absl::Status refused_ ABSL_GUARDED_BY(mu_);  // the reason, if Refuse closed the stream
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_STREAM_H_
