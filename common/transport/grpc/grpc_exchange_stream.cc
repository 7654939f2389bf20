#include "common/transport/grpc/grpc_exchange_stream.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/exchange/payload.h"
#include "common/transport/bounded_replies.h"
#include "common/transport/grpc/frame_stream.h"
#include "common/transport/grpc/grpc_payload.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/grpc/stream_receipts.h"
#include "common/wire/frame.h"

namespace capstan {
namespace {

// One client's stream. Lives until gRPC is done with it and all its exchanges are answered. Drops
// replies after its end.
class ExchangeStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                       public BoundedReplies::Sender {
 public:
  ExchangeStream(StreamLimit::Place place, const ExchangeStreams& served)
      : place_(std::move(place)),
        replies_(served.endpoint, served.max_inflight_bytes, served.order, this, served.role) {}

  void Start() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (ok) TakeMessage(FromByteBuffer(incoming_));
    StreamReceipts::Callbacks delivered;
    {
      MutexLock lock(&mu_);
      frames_.set_is_taking_message(false);
      incoming_.Clear();
      is_read_to_end_ = !ok;
      // While a client does not read its replies, its requests are not read.
      is_read_paused_ = ok && !replies_.MayTakeRequests();
      if (HearsReceiptsLocked()) {
        StartRead(&incoming_);
      } else {
        delivered = frames_.receipts().AcknowledgeAll();
      }
      WriteNextLocked();
      FinishIfIdleLocked();
    }
    RunAll(std::move(delivered));
  }

  void OnWriteDone(bool ok) override {
    if (!ok) Cancel(grpc::Status::CANCELLED);
    FrameStream<ExchangeReply>::Written written;
    StreamReceipts::Callbacks delivered;
    {
      MutexLock lock(&mu_);
      written = frames_.OnWritten();
      if (!frames_.uses_receipts() || !HearsReceiptsLocked()) {
        delivered = frames_.receipts().AcknowledgeAll();
      }
      WriteNextLocked();
      FinishIfIdleLocked();
    }
    if (written.counted_bytes > 0) replies_.Released(written.counted_bytes);
    RunAll(std::move(written.delivered));
    RunAll(std::move(delivered));
    ResumeRead();
  }

  void OnCancel() override { Cancel(grpc::Status::CANCELLED); }

  void OnDone() override { self_ = nullptr; }

 private:
  void TakeMessage(const Payload& message) {
    ForEachFrame(
        message, DecodeRequest,
        [this](bool has_next) {
          MutexLock lock(&mu_);
          frames_.set_is_taking_message(has_next);
        },
        [this](absl::StatusOr<RequestFrame> frame) { return TakeFrame(std::move(frame)); });
  }

  // False: the stream ends.
  bool TakeFrame(absl::StatusOr<RequestFrame> decoded) {
    if (decoded.ok() && decoded->received_bytes.has_value() && !TakeReceipt(*decoded)) return false;
    if (decoded.ok() && decoded->is_receipt) return true;
    {
      MutexLock lock(&mu_);
      ++open_exchanges_;
    }
    // A malformed frame has no request id. Id 0 tells the client so.
    if (decoded.ok()) {
      replies_.Exchange(*std::move(decoded), [] {});
    } else {
      replies_.SendError(/*request_id=*/0, ErrorReply(decoded.status()));
    }
    return true;
  }

  // False: the stream ends.
  bool TakeReceipt(const RequestFrame& frame) {
    absl::StatusOr<StreamReceipts::Callbacks> delivered;
    {
      MutexLock lock(&mu_);
      frames_.UseReceipts();
      if (frame.reads_next) frames_.SendTogether();
      frames_.receipts().Receive(frame.payload_bytes);
      delivered = frames_.receipts().Acknowledge(*frame.received_bytes);
    }
    if (!delivered.ok()) {
      Cancel(GrpcStatus(delivered.status()));
      return false;
    }
    RunAll(*std::move(delivered));
    return true;
  }

  void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                 StreamReceipts::Callback delivered) override {
    MutexLock lock(&mu_);
    --open_exchanges_;
    if (is_cancelled_ || is_finished_) return FinishIfIdleLocked();
    frames_.Add({request_id, std::move(reply), std::move(delivered), bytes});
    WriteNextLocked();
  }

  // True if receipts can arrive. While they cannot, a written payload counts as delivered.
  // Otherwise nothing more would be sent.
  bool HearsReceiptsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !is_read_paused_ && !is_read_to_end_ && !is_cancelled_ && !is_finished_;
  }

  void WriteNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (is_cancelled_ || is_finished_) return;
    if (const grpc::ByteBuffer* message = frames_.Next(); message != nullptr) StartWrite(message);
  }

  // The client is gone or has broken the protocol. The first reason counts.
  void Cancel(const grpc::Status& why) {
    replies_.Close();
    MutexLock lock(&mu_);
    if (!std::exchange(is_cancelled_, true)) why_cancelled_ = why;
    frames_.Clear();
    FinishIfIdleLocked();
  }

  void ResumeRead() {
    MutexLock lock(&mu_);
    if (!is_read_paused_ || is_cancelled_ || is_finished_ || !replies_.MayTakeRequests()) return;
    is_read_paused_ = false;
    StartRead(&incoming_);
  }

  // Ends the stream if the client is gone, or if its last request is read and the last reply
  // written.
  void FinishIfIdleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool is_answered = is_read_to_end_ && open_exchanges_ == 0;
    const bool is_idle = !frames_.has_waiting() && !frames_.is_writing();
    if (is_finished_ || !is_idle || !(is_cancelled_ || is_answered)) return;
    is_finished_ = true;
    Finish(is_cancelled_ ? why_cancelled_ : grpc::Status::OK);
  }

  const StreamLimit::Place place_;
  grpc::ByteBuffer incoming_;  // used by reads alone, one at a time
  std::shared_ptr<Sender> self_;
  BoundedReplies replies_;

  Mutex mu_;
  FrameStream<ExchangeReply> frames_ ABSL_GUARDED_BY(mu_);
  bool is_read_paused_ ABSL_GUARDED_BY(mu_) = false;
  int64_t open_exchanges_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_read_to_end_ ABSL_GUARDED_BY(mu_) = false;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  grpc::Status why_cancelled_ ABSL_GUARDED_BY(mu_);
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

// Ends at once.
class RefusedStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(GrpcStatus(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServeStream(
    const ExchangeStreams& served, absl::string_view call, grpc::CallbackServerContext* context) {
  if (served.guard != nullptr) {
    const absl::Status admitted = served.guard->Admit(*context, call).status();
    if (!admitted.ok()) return new RefusedStream(admitted);
  }
  StreamLimit::Place place;
  if (served.limit != nullptr) {
    absl::StatusOr<StreamLimit::Place> taken = served.limit->Take();
    if (!taken.ok()) return new RefusedStream(taken.status());
    place = *std::move(taken);
  }
  auto stream = std::make_shared<ExchangeStream>(std::move(place), served);
  stream->Start();
  return stream.get();
}

}  // namespace capstan
