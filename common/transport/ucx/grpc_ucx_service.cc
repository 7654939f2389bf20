#include "common/transport/ucx/grpc_ucx_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

// One worker's stream. Lives until gRPC and the listener are done with it.
class GuestStream : public grpc::ServerWriteReactor<v1::UcxInvitation>,
                    public UcxTransport::Guest,
                    public std::enable_shared_from_this<GuestStream> {
 public:
  GuestStream(StreamLimit::Place place, UcxAdmission admission, UcxTransport::Listener* listener)
      : place_(std::move(place)), admission_(std::move(admission)), listener_(listener) {}

  void Start() {
    self_ = shared_from_this();
    listener_->Invite(self_);
  }

  std::string secret() const override { return admission_.secret(); }

  void OnInvitation(const v1::UcxInvitation& invitation) override {
    MutexLock lock(&mu_);
    invitation_ = invitation;
    admission_.AddTo(invitation_);
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
  const UcxAdmission admission_;
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
    grpc::CallbackServerContext* context, const v1::OpenUcxRequest* request) {
  absl::StatusOr<UcxAdmission> admission = Admit(*context, *request);
  if (!admission.ok()) return new RefusedStream(admission.status());
  StreamLimit::Place place;
  if (streams_ != nullptr) {
    absl::StatusOr<StreamLimit::Place> taken = streams_->Take();
    if (!taken.ok()) return new RefusedStream(taken.status());
    place = *std::move(taken);
  }
  const auto stream =
      std::make_shared<GuestStream>(std::move(place), *std::move(admission), listener_);
  stream->Start();
  return stream.get();
}

absl::StatusOr<UcxAdmission> GrpcUcxService::Admit(const grpc::CallbackServerContext& context,
                                                   const v1::OpenUcxRequest& request) {
  if (guard_ == nullptr) return UcxAdmission::Telling();
  ASSIGN_OR_RETURN(const JobTokens::Token token, guard_->Admit(context, kOpenUcxCall));
  const GrpcSecurity& security = *guard_->security();
  if (security.is_tls() || security.tokens() == nullptr) return UcxAdmission::Telling();
  absl::StatusOr<UcxAdmission> admission =
      UcxAdmission::Proving(request, token.text, job_, guard_->audience());
  if (!admission.ok()) return guard_->Refuse(context, kOpenUcxCall, admission.status());
  return admission;
}

}  // namespace capstan
