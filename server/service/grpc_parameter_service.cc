#include "server/service/grpc_parameter_service.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/transport/bounded_replies.h"
#include "common/transport/frame.h"
#include "common/transport/grpc_payload.h"
#include "common/transport/payload.h"

namespace capstan {
namespace {

// One worker's stream. Lives until gRPC is done with it and no exchange of it is parked any more;
// replies that come after its end go nowhere.
class ExchangeStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                       public BoundedReplies {
 public:
  using BoundedReplies::BoundedReplies;

  void Start() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      MutexLock lock(&mu_);
      is_read_to_end_ = true;
      return FinishIfIdleLocked();
    }
    HandleFrame(FromByteBuffer(incoming_));
    incoming_.Clear();
    MutexLock lock(&mu_);
    // A client that does not read its replies is not read from either.
    is_read_paused_ = !MayTakeRequests();
    if (!is_read_paused_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) Close();
    uint64_t bytes;
    {
      MutexLock lock(&mu_);
      if (!ok) is_cancelled_ = true;
      bytes = outgoing_.front().bytes;
      outgoing_.pop_front();
      if (is_cancelled_) outgoing_.clear();
      if (!outgoing_.empty()) StartWrite(&outgoing_.front().message);
      FinishIfIdleLocked();
    }
    Sent(bytes);
    ResumeRead();
  }

  void OnCancel() override {
    Close();
    MutexLock lock(&mu_);
    is_cancelled_ = true;
    FinishIfIdleLocked();
  }

  void OnDone() override { self_ = nullptr; }

 private:
  struct Outgoing {
    grpc::ByteBuffer message;
    uint64_t bytes;  // that it counts
  };

  void HandleFrame(const Payload& frame) {
    {
      MutexLock lock(&mu_);
      ++open_exchanges_;
    }
    absl::StatusOr<RequestFrame> decoded = DecodeRequest(frame);
    // A frame that is no message has no request id; 0 tells the client that much.
    if (!decoded.ok()) return SendError(/*request_id=*/0, ErrorReply(decoded.status()));
    Exchange(*std::move(decoded), [] {});
  }

  void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes) override {
    grpc::ByteBuffer message = ToByteBuffer(EncodeReplyPrefix(request_id, reply), reply.values);
    MutexLock lock(&mu_);
    --open_exchanges_;
    if (is_cancelled_ || is_finished_) return FinishIfIdleLocked();
    outgoing_.push_back({std::move(message), bytes});
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front().message);
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
    if (is_finished_ || !outgoing_.empty() || !(is_cancelled_ || is_answered)) return;
    is_finished_ = true;
    Finish(is_cancelled_ ? grpc::Status::CANCELLED : grpc::Status::OK);
  }

  grpc::ByteBuffer incoming_;  // used by reads alone, one at a time
  std::shared_ptr<BoundedReplies> self_;

  Mutex mu_;
  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mu_);  // the front one is being written
  bool is_read_paused_ ABSL_GUARDED_BY(mu_) = false;
  int64_t open_exchanges_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_read_to_end_ ABSL_GUARDED_BY(mu_) = false;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcParameterService::Exchange(
    grpc::CallbackServerContext* /*context*/) {
  auto stream = std::make_shared<ExchangeStream>(endpoint_, max_inflight_bytes_);
  stream->Start();
  return stream.get();
}

}  // namespace capstan
