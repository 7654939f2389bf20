#include "server/service/grpc_parameter_service.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/transport/frame.h"
#include "common/transport/grpc_payload.h"
#include "common/transport/payload.h"

namespace capstan {
namespace {

// Replies that wait to be sent on one stream; beyond, no more requests are read from it.
constexpr size_t kMaxOutgoingBytes = 64 << 20;

// One worker's stream. Lives until gRPC is done with it and no exchange of it is parked any more;
// replies that come after its end go nowhere.
class ExchangeStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                       public std::enable_shared_from_this<ExchangeStream> {
 public:
  explicit ExchangeStream(ParameterEndpoint* endpoint) : endpoint_(endpoint) {}

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
    is_read_paused_ = outgoing_bytes_ > kMaxOutgoingBytes;
    if (!is_read_paused_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mu_);
    outgoing_bytes_ -= outgoing_.front().Length();
    outgoing_.pop_front();
    if (!ok) is_cancelled_ = true;
    if (is_cancelled_) {
      outgoing_.clear();
      outgoing_bytes_ = 0;
    }
    if (!outgoing_.empty()) StartWrite(&outgoing_.front());
    ResumeReadLocked();
    FinishIfIdleLocked();
  }

  void OnCancel() override {
    MutexLock lock(&mu_);
    is_cancelled_ = true;
    FinishIfIdleLocked();
  }

  void OnDone() override { self_ = nullptr; }

 private:
  void HandleFrame(const Payload& frame) {
    {
      MutexLock lock(&mu_);
      ++open_exchanges_;
    }
    absl::StatusOr<RequestFrame> decoded = DecodeRequest(frame);
    // A frame that is no message has no request id; 0 tells the client that much.
    if (!decoded.ok()) return Reply(/*request_id=*/0, ErrorReply(decoded.status()));
    endpoint_->Exchange(
        std::move(decoded->request), [] {},
        [self = shared_from_this(), id = decoded->request_id](ExchangeReply reply) {
          self->Reply(id, std::move(reply));
        });
  }

  void Reply(uint64_t request_id, ExchangeReply reply) {
    grpc::ByteBuffer message = ToByteBuffer(EncodeReplyPrefix(request_id, reply), reply.values);
    MutexLock lock(&mu_);
    --open_exchanges_;
    if (is_cancelled_ || is_finished_) return FinishIfIdleLocked();
    outgoing_bytes_ += message.Length();
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }

  // A client that does not read its replies is not read from either.
  void ResumeReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!is_read_paused_ || outgoing_bytes_ > kMaxOutgoingBytes || is_finished_) return;
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

  ParameterEndpoint* const endpoint_;
  grpc::ByteBuffer incoming_;  // used by reads alone, one at a time
  std::shared_ptr<ExchangeStream> self_;

  Mutex mu_;
  std::deque<grpc::ByteBuffer> outgoing_ ABSL_GUARDED_BY(mu_);  // the front one is being written
  size_t outgoing_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_read_paused_ ABSL_GUARDED_BY(mu_) = false;
  int64_t open_exchanges_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_read_to_end_ ABSL_GUARDED_BY(mu_) = false;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcParameterService::Exchange(
    grpc::CallbackServerContext* /*context*/) {
  auto stream = std::make_shared<ExchangeStream>(endpoint_);
  stream->Start();
  return stream.get();
}

}  // namespace capstan
