#include "common/transport/grpc/grpc_endpoint.h"

#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "absl/time/time.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/grpc/grpc_stream.h"

namespace capstan {
class GrpcEndpoint::Connection {
 public:
  explicit Connection(const std::string& address) : stub_(MakeGrpcChannel(address)) {}
  grpc::GenericStub& stub() { return stub_; }

 private:
  grpc::GenericStub stub_;
};

GrpcEndpoint::GrpcEndpoint(const std::string& address, Clock* clock)
    : clock_(clock), connection_(std::make_unique<Connection>(address)) {}

GrpcEndpoint::~GrpcEndpoint() {
  MutexLock lock(&mu_);
  is_closing_ = true;
  if (stream_ != nullptr) stream_->Cancel();
  while (live_streams_ > 0) clock_->WaitUntil(mu_, stream_ended_, absl::InfiniteFuture());
}

void GrpcEndpoint::Exchange(ExchangeRequest request, DeliveredCallback delivered,
                            ReplyCallback done) {
  const std::shared_ptr<GrpcStream> stream = OpenStream();
  if (stream != nullptr && stream->Exchange(request, delivered, done)) return;
  delivered();
  done(ErrorReply(absl::UnavailableError("connection to the server broke")));
}

std::shared_ptr<GrpcStream> GrpcEndpoint::OpenStream() {
  MutexLock lock(&mu_);
  if (is_closing_) return nullptr;
  if (stream_ == nullptr || stream_->is_broken()) {
    stream_ = std::make_shared<GrpcStream>(
        [this](std::shared_ptr<GrpcStream> ended) { OnStreamEnd(std::move(ended)); });
    ++live_streams_;
    stream_->Start(connection_->stub());
  }
  return stream_;
}

void GrpcEndpoint::OnStreamEnd(std::shared_ptr<GrpcStream> stream) {
  MutexLock lock(&mu_);
  if (stream_ == stream) stream_ = nullptr;
  stream = nullptr;
  --live_streams_;
  stream_ended_.NotifyAll();
}

}  // namespace capstan
