#include "server/service/grpc_parameter_service.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/bounded_replies.h"
#include "common/transport/frame.h"
#include "common/transport/grpc_payload.h"
#include "common/transport/grpc_status.h"
#include "common/transport/payload.h"
#include "common/transport/stream_receipts.h"

namespace capstan {
namespace {

// One worker's stream. Lives until gRPC is done with it and no exchange of it is parked any more;
// replies that come after its end go nowhere.
class ExchangeStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                       public BoundedReplies {
 public:
  ExchangeStream(StreamLimit::Place place, ParameterEndpoint* endpoint, uint64_t max_bytes,
                 ReplyOrder order)
      : BoundedReplies(endpoint, max_bytes, std::move(order)), place_(std::move(place)) {}

  void Start() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (ok) TakeMessage(FromByteBuffer(incoming_));
    StreamReceipts::Callbacks received;
    {
      MutexLock lock(&mu_);
      incoming_.Clear();
      is_read_to_end_ = !ok;
      // A client that does not read its replies is not read from either.
      is_read_paused_ = ok && !MayTakeRequests();
      if (HearsReceiptsLocked()) {
        StartRead(&incoming_);
      } else {
        received = receipts_.AcknowledgeAll();
      }
      WriteNextLocked();
      FinishIfIdleLocked();
    }
    RunAll(std::move(received));
  }

  void OnWriteDone(bool ok) override {
    if (!ok) Close();
    uint64_t bytes;
    StreamReceipts::Callbacks received;
    {
      MutexLock lock(&mu_);
      if (!ok) is_cancelled_ = true;
      message_.Clear();
      is_writing_ = false;
      bytes = std::exchange(writing_bytes_, 0);
      if (is_cancelled_) outgoing_.clear();
      if (!has_receipts_ || !HearsReceiptsLocked()) received = receipts_.AcknowledgeAll();
      WriteNextLocked();
      FinishIfIdleLocked();
    }
    if (bytes > 0) Sent(bytes);
    RunAll(std::move(received));
    ResumeRead();
  }

  void OnCancel() override {
    Close();
    MutexLock lock(&mu_);
    is_cancelled_ = true;
    // Of a message that is being taken: no write follows, whose end would see to them.
    outgoing_.clear();
    FinishIfIdleLocked();
  }

  void OnDone() override { self_ = nullptr; }

 private:
  struct Outgoing {
    uint64_t request_id;
    ExchangeReply reply;
    uint64_t bytes;  // that it counts
    StreamReceipts::Callback received;
  };

  // A message: a frame, and those that follow.
  void TakeMessage(const Payload& message) {
    NextFrames next;
    absl::StatusOr<RequestFrame> first = DecodeRequest(message, &next);
    {
      MutexLock lock(&mu_);
      is_taking_next_ = !next.empty();
    }
    bool goes_on = TakeFrame(std::move(first));
    for (size_t i = 0; i < next.size() && goes_on; ++i) goes_on = TakeFrame(DecodeRequest(next[i]));
    MutexLock lock(&mu_);
    is_taking_next_ = false;
  }

  // False when it ends the stream.
  bool TakeFrame(absl::StatusOr<RequestFrame> decoded) {
    if (decoded.ok() && decoded->received_bytes.has_value() && !TakeReceipt(*decoded)) return false;
    if (decoded.ok() && decoded->is_receipt()) return true;
    {
      MutexLock lock(&mu_);
      ++open_exchanges_;
    }
    // A frame that is no message has no request id; 0 tells the client that much.
    if (decoded.ok()) {
      Exchange(*std::move(decoded), [] {});
    } else {
      SendError(/*request_id=*/0, ErrorReply(decoded.status()));
    }
    return true;
  }

  // False when it ends the stream.
  bool TakeReceipt(const RequestFrame& frame) {
    absl::StatusOr<StreamReceipts::Callbacks> received;
    {
      MutexLock lock(&mu_);
      has_receipts_ = true;
      reads_next_ = reads_next_ || frame.reads_next;
      receipts_.Receive(frame.request.gradient.size_bytes());
      received = receipts_.Acknowledge(*frame.received_bytes);
    }
    if (received.ok()) {
      RunAll(*std::move(received));
      return true;
    }
    Close();
    MutexLock lock(&mu_);
    is_cancelled_ = true;
    why_cancelled_ = grpc::Status(grpc::INVALID_ARGUMENT, std::string(received.status().message()));
    outgoing_.clear();
    return false;
  }

  void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                 StreamReceipts::Callback received) override {
    MutexLock lock(&mu_);
    --open_exchanges_;
    if (is_cancelled_ || is_finished_) return FinishIfIdleLocked();
    outgoing_.push_back({request_id, std::move(reply), bytes, std::move(received)});
    WriteNextLocked();
  }

  // Whether receipts can arrive. While they cannot, what is written counts as received: else
  // nothing would go any more.
  bool HearsReceiptsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !is_read_paused_ && !is_read_to_end_ && !is_cancelled_ && !is_finished_;
  }

  // What goes next, if anything does: the oldest replies, or a receipt ahead of them.
  void WriteNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (is_writing_ || is_taking_next_ || is_cancelled_ || is_finished_) return;
    std::optional<uint64_t> next_bytes;
    if (!outgoing_.empty()) next_bytes = outgoing_.front().reply.values.size_bytes();
    if (has_receipts_ && receipts_.IsDue(next_bytes)) {
      message_ = ToByteBuffer(EncodeReplyReceipt(receipts_.Report()), Payload());
    } else if (next_bytes.has_value()) {
      WriteRepliesLocked();
    } else {
      return;
    }
    is_writing_ = true;
    StartWrite(&message_);
  }

  // The oldest reply, and small ones after it.
  void WriteRepliesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    GrpcMessage message;
    while (!outgoing_.empty() && message.Takes(outgoing_.front().reply.values.size_bytes()) &&
           (message.empty() || reads_next_)) {
      Outgoing next = std::move(outgoing_.front());
      outgoing_.pop_front();
      const size_t value_bytes = next.reply.values.size_bytes();
      std::string prefix = EncodeReplyPrefix(next.request_id, next.reply, receipts_.Report());
      message.Add(std::move(prefix), std::move(next.reply.values));
      writing_bytes_ += next.bytes;
      if (value_bytes > 0) receipts_.Send(value_bytes, std::move(next.received));
    }
    message_ = message.Take();
  }

  void ResumeRead() {
    MutexLock lock(&mu_);
    if (!is_read_paused_ || is_cancelled_ || is_finished_ || !MayTakeRequests()) return;
    is_read_paused_ = false;
    StartRead(&incoming_);
  }

  // Ends the stream when the client has said all and heard all, or is gone.
  void FinishIfIdleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool is_answered = is_read_to_end_ && open_exchanges_ == 0;
    const bool is_idle = outgoing_.empty() && !is_writing_;
    if (is_finished_ || !is_idle || !(is_cancelled_ || is_answered)) return;
    is_finished_ = true;
    Finish(is_cancelled_ ? why_cancelled_ : grpc::Status::OK);
  }

  const StreamLimit::Place place_;
  grpc::ByteBuffer incoming_;  // used by reads alone, one at a time
  std::shared_ptr<BoundedReplies> self_;

  Mutex mu_;
  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mu_);
  StreamReceipts receipts_ ABSL_GUARDED_BY(mu_);
  bool has_receipts_ ABSL_GUARDED_BY(mu_) = false;  // the client has said so
  bool reads_next_ ABSL_GUARDED_BY(mu_) = false;    // the same
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_taking_next_ ABSL_GUARDED_BY(mu_) = false;  // what it causes is written together
  grpc::ByteBuffer message_ ABSL_GUARDED_BY(mu_);     // that is being written
  uint64_t writing_bytes_ ABSL_GUARDED_BY(mu_) = 0;   // that they count; 0: no replies
  bool is_read_paused_ ABSL_GUARDED_BY(mu_) = false;
  int64_t open_exchanges_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_read_to_end_ ABSL_GUARDED_BY(mu_) = false;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  grpc::Status why_cancelled_ ABSL_GUARDED_BY(mu_) = grpc::Status::CANCELLED;
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

// Ends as it begins.
class RefusedStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(GrpcStatus(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcParameterService::Exchange(
    grpc::CallbackServerContext* /*context*/) {
  StreamLimit::Place place;
  if (streams_ != nullptr) {
    absl::StatusOr<StreamLimit::Place> taken = streams_->Take();
    if (!taken.ok()) return new RefusedStream(taken.status());
    place = *std::move(taken);
  }
  auto stream =
      std::make_shared<ExchangeStream>(std::move(place), endpoint_, max_inflight_bytes_, order_);
  stream->Start();
  return stream.get();
}

}  // namespace capstan
