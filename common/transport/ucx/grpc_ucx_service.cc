#include "common/transport/ucx/grpc_ucx_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

// One worker's stream. Lives until gRPC and the listener are done with it.
class GuestStream : public grpc::ServerWriteReactor<v1::UcxInvitation>,
                    public UcxTransport::Guest,
                    public std::enable_shared_from_this<GuestStream> {
 public:
  GuestStream(StreamLimit::Place place, UcxTransport::Listener* listener)
      : place_(std::move(place)), listener_(listener) {}

  void Start() {
    self_ = shared_from_this();
    listener_->Invite(self_);
  }

  void OnInvitation(const v1::UcxInvitation& invitation) override {
    MutexLock lock(&mu_);
    invitation_ = invitation;
    is_writing_ = true;
    StartWrite(&invitation_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mu_);
    is_writing_ = false;
    if (!ok && !end_.has_value()) listener_->End(this);
    FinishLocked();
  }

  void OnCancel() override {
    MutexLock lock(&mu_);
    if (!end_.has_value()) listener_->End(this);
  }

  void OnEnd(const absl::Status& status) override {
    MutexLock lock(&mu_);
    end_ = GrpcStatus(status);
    FinishLocked();
  }

  void OnDone() override { self_ = nullptr; }

 private:
  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (end_.has_value() && !is_writing_) Finish(*end_);
  }

  const StreamLimit::Place place_;
  UcxTransport::Listener* const listener_;
  std::shared_ptr<GuestStream> self_;

  Mutex mu_;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  v1::UcxInvitation invitation_ ABSL_GUARDED_BY(mu_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mu_);  // once the connection has ended
};

// Ends at once.
class RefusedStream : public grpc::ServerWriteReactor<v1::UcxInvitation> {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(GrpcStatus(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<v1::UcxInvitation>* GrpcUcxService::OpenUcx(
    grpc::CallbackServerContext* /*context*/, const v1::OpenUcxRequest* /*request*/) {
  StreamLimit::Place place;
  if (streams_ != nullptr) {
    absl::StatusOr<StreamLimit::Place> taken = streams_->Take();
    if (!taken.ok()) return new RefusedStream(taken.status());
    place = *std::move(taken);
  }
  const auto stream = std::make_shared<GuestStream>(std::move(place), listener_);
  stream->Start();
  return stream.get();
}

}  // namespace capstan
