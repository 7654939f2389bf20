#include "common/transport/ucx/grpc_ucx_stream.h"

#include <utility>

#include "absl/time/time.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
void GrpcUcxStream::Start(v1::UcxService::Stub& stub) {
  self_ = shared_from_this();
  stub.async()->OpenUcx(&context_, &request_, this);
  StartRead(&invitation_);
  StartCall();
}

void GrpcUcxStream::OnReadDone(bool ok) {
  if (!ok) return;  // OnDone follows.
  if (!std::exchange(has_invitation_, true)) callbacks_.on_invitation(self_, invitation_);
  StartRead(&invitation_);
}

void GrpcUcxStream::OnDone(const grpc::Status& status) {
  const StreamPointer self = std::move(self_);
  callbacks_.on_end(self, AbslStatus(status));
}

GrpcUcxOpener::GrpcUcxOpener(const std::string& address, Clock* clock)
    : clock_(clock), stub_(v1::UcxService::NewStub(MakeGrpcChannel(address))) {}

void GrpcUcxOpener::AwaitEnd() {
  MutexLock lock(&mu_);
  while (live_streams_ > 0) clock_->WaitUntil(mu_, stream_destroyed_, absl::InfiniteFuture());
}

std::shared_ptr<GrpcUcxStream> GrpcUcxOpener::Open(GrpcUcxStream::Callbacks callbacks) {
  {
    MutexLock lock(&mu_);
    ++live_streams_;
  }
  const auto stream = std::make_shared<GrpcUcxStream>(std::move(callbacks), [this] {
    MutexLock lock(&mu_);
    --live_streams_;
    stream_destroyed_.NotifyAll();
  });
  stream->Start(*stub_);
  return stream;
}

}  // namespace capstan
