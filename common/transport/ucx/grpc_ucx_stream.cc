#include "common/transport/ucx/grpc_ucx_stream.h"

#include <utility>

#include "absl/time/time.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
void GrpcUcxStream::Start(v1::UcxService::Stub& stub, const std::string& address) {
  self_ = shared_from_this();
  request_ = MakeUcxRequest(member_, address);
  member_.security->Authorize(address, kOpenUcxCall, context_);
  stub.async()->OpenUcx(&context_, &request_, this);
  StartRead(&invitation_);
  StartCall();
}

void GrpcUcxStream::OnReadDone(bool ok) {
  if (!ok) return;  // OnDone follows.
  if (!std::exchange(has_invitation_, true)) {
    distrust_ = CompleteInvitation(member_, request_, invitation_);
    distrust_.ok() ? callbacks_.on_invitation(self_, invitation_) : Cancel();
  }
  StartRead(&invitation_);
}

void GrpcUcxStream::OnDone(const grpc::Status& status) {
  const StreamPointer self = std::move(self_);
  callbacks_.on_end(self, distrust_.ok() ? AbslStatus(status) : distrust_);
}

GrpcUcxOpener::GrpcUcxOpener(const std::string& address, Clock* clock, const UcxMember& member)
    : address_(address),
      clock_(clock),
      member_(member),
      stub_(v1::UcxService::NewStub(MakeGrpcChannel(address, *member.security))) {}

void GrpcUcxOpener::AwaitEnd() {
  MutexLock lock(&mu_);
  while (live_streams_ > 0) clock_->WaitUntil(mu_, stream_destroyed_, absl::InfiniteFuture());
}

std::shared_ptr<GrpcUcxStream> GrpcUcxOpener::Open(GrpcUcxStream::Callbacks callbacks) {
  {
    MutexLock lock(&mu_);
    ++live_streams_;
  }
  const auto stream = std::make_shared<GrpcUcxStream>(member_, std::move(callbacks), [this] {
    MutexLock lock(&mu_);
    --live_streams_;
    stream_destroyed_.NotifyAll();
  });
  stream->Start(*stub_, address_);
  return stream;
}

}  // namespace capstan
