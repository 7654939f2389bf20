#include "common/transport/grpc_endpoint.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/grpc_payload.h"
#include "common/transport/grpc_stream.h"
#include "common/transport/striped_endpoint.h"

namespace capstan {
namespace {

// A peer that answers no ping for so long is gone.
constexpr absl::Duration kKeepalive = absl::Seconds(5);

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(kKeepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, absl::ToInt64Milliseconds(kKeepalive));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  // What gRPC gives an attempt to connect, however soon the next one may follow a refusal.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // No environment variable configures anything, not even a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Endpoints of one process never share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

class GrpcEndpoint::Connection {
 public:
  explicit Connection(const std::string& address) : stub_(MakeChannel(address)) {}
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

void GrpcEndpoint::Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  const std::shared_ptr<GrpcStream> stream = OpenStream();
  if (stream != nullptr && stream->Exchange(request, sent, done)) return;
  sent();
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

std::unique_ptr<ParameterEndpoint> ConnectOverGrpc(const std::string& address, int connections,
                                                   Clock* clock) {
  std::vector<std::unique_ptr<ParameterEndpoint>> endpoints;
  for (int i = 0; i < connections; ++i) {
    endpoints.push_back(std::make_unique<GrpcEndpoint>(address, clock));
  }
  return std::make_unique<StripedEndpoint>(std::move(endpoints));
}

}  // namespace capstan
