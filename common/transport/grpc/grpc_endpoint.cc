#include "common/transport/grpc/grpc_endpoint.h"

#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "absl/time/time.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/grpc/grpc_stream.h"

namespace capstan {
class GrpcEndpoint::Connection {
 public:
  Connection(const std::string& address, const GrpcSecurity& security)
      : stub_(MakeGrpcChannel(address, security)) {}
  grpc::GenericStub& stub() { return stub_; }

 private:
  grpc::GenericStub stub_;
};

GrpcEndpoint::GrpcEndpoint(const std::string& address, Clock* clock, SecurityPointer security,
                           SenderRole role)
    : address_(address),
      clock_(clock),
      security_(std::move(security)),
      role_(role),
      connection_(std::make_unique<Connection>(address, *security_)) {}

GrpcEndpoint::~GrpcEndpoint() {
  MutexLock lock(&mu_);
  is_closing_ = true;
  if (stream_ != nullptr) stream_->Cancel();
  while (live_streams_ > 0) clock_->WaitUntil(mu_, stream_ended_, absl::InfiniteFuture());
}

void GrpcEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                            ReplyCallback done) {
  // A stream may end before it has taken the exchange.
  while (const std::shared_ptr<GrpcStream> stream = OpenStream()) {
    if (stream->Exchange(request, delivered, done)) return;
  }
  delivered();
  done(ErrorReply(absl::UnavailableError("this connection is closed")));
}

std::shared_ptr<GrpcStream> GrpcEndpoint::OpenStream() {
  MutexLock lock(&mu_);
  if (is_closing_) return nullptr;
  if (stream_ == nullptr || stream_->is_broken()) {
    stream_ = std::make_shared<GrpcStream>(
        security_, address_, role_,
        [this](const absl::Status& status) { return ExplainFailure(status); },
        [this](std::shared_ptr<GrpcStream> ended) { OnStreamEnd(std::move(ended)); });
    ++live_streams_;
    stream_->Start(connection_->stub());
  }
  return stream_;
}

absl::Status GrpcEndpoint::ExplainFailure(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    if (!security_->is_tls() || std::exchange(has_explained_, true)) {
      return distrust_.ok() ? status : distrust_;
    }
  }
  const absl::Status explained = security_->Explain(address_, status);
  MutexLock lock(&mu_);
  if (explained != status) distrust_ = explained;
  return explained;
}

void GrpcEndpoint::OnStreamEnd(std::shared_ptr<GrpcStream> stream) {
  MutexLock lock(&mu_);
  if (stream_ == stream) stream_ = nullptr;
  stream = nullptr;
  --live_streams_;
  stream_ended_.NotifyAll();
}

}  // namespace capstan
