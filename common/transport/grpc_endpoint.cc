#include "common/transport/grpc_endpoint.h"

#include <glog/logging.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_callback.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/transport/frame.h"
#include "common/transport/grpc_payload.h"
#include "common/transport/striped_endpoint.h"

namespace capstan {
namespace {

constexpr char kExchangeMethod[] = "/capstan.v1.ParameterService/Exchange";
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

// One life of the stream. Keeps itself alive until gRPC is done with it.
class GrpcEndpoint::Stream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                             public std::enable_shared_from_this<GrpcEndpoint::Stream> {
 public:
  explicit Stream(GrpcEndpoint* endpoint) : endpoint_(endpoint) {}

  void Start(grpc::GenericStub& stub) {
    self_ = shared_from_this();
    stub.PrepareBidiStreamingCall(&context_, kExchangeMethod, grpc::StubOptions(), this);
    // Writes start outside of reactions, until the stream breaks.
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  // False when the stream is broken; then nothing was taken.
  bool Exchange(ExchangeRequest& request, SentCallback& sent, ReplyCallback& done) {
    MutexLock lock(&mu_);
    if (is_broken_) return false;
    const uint64_t id = ++last_request_id_;
    Open& exchange = open_[id];
    exchange.sent = std::move(sent);
    exchange.done = std::move(done);
    outgoing_.push_back({id, ToByteBuffer(EncodeRequestPrefix(id, request), request.gradient)});
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front().message);
    return true;
  }

  void Cancel() { context_.TryCancel(); }

  bool is_broken() const {
    MutexLock lock(&mu_);
    return is_broken_;
  }

  void OnWriteDone(bool ok) override {
    SentCallback sent;
    uint64_t id;
    {
      MutexLock lock(&mu_);
      if (!ok) return;  // OnDone follows, and tells what is left.
      id = outgoing_.front().request_id;
      const auto it = open_.find(id);
      if (it != open_.end()) sent = BeginTelling(it->second);
      outgoing_.pop_front();
      if (!outgoing_.empty() && !is_broken_) StartWrite(&outgoing_.front().message);
    }
    if (sent) TellSent(id, std::move(sent));
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Break();
    DeliverReply(FromByteBuffer(incoming_));
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnDone(const grpc::Status& status) override {
    AnswerAll(status);
    GrpcEndpoint* const endpoint = endpoint_;
    // Keep the lock's owner alive past our own release.
    std::shared_ptr<Stream> self = std::move(self_);
    MutexLock lock(&endpoint->mu_);
    if (endpoint->stream_ == self) endpoint->stream_ = nullptr;
    self = nullptr;
    --endpoint->live_streams_;
    endpoint->stream_ended_.NotifyAll();
  }

 private:
  struct Outgoing {
    uint64_t request_id;
    grpc::ByteBuffer message;
  };
  struct Open {
    SentCallback sent;  // null once it has run, or runs
    ReplyCallback done;
    bool is_telling = false;             // `sent` is running
    std::optional<ExchangeReply> reply;  // that came meanwhile, and must wait for it

    void Answer(ExchangeReply reply) {
      // A reply may overtake the news that its request was written.
      if (sent) std::exchange(sent, nullptr)();
      done(std::move(reply));
    }
  };

  static SentCallback BeginTelling(Open& exchange) {
    exchange.is_telling = true;
    return std::exchange(exchange.sent, nullptr);
  }

  // Runs `sent`, and then the reply that has come while it ran.
  void TellSent(uint64_t id, SentCallback sent) {
    sent();
    std::map<uint64_t, Open>::node_type answered;
    {
      MutexLock lock(&mu_);
      const auto it = open_.find(id);
      it->second.is_telling = false;
      if (!it->second.reply.has_value()) return;
      answered = open_.extract(it);
    }
    answered.mapped().Answer(*std::move(answered.mapped().reply));
  }

  // No write starts from now on.
  void Break() {
    {
      MutexLock lock(&mu_);
      if (std::exchange(is_broken_, true)) return;
    }
    RemoveHold();
  }

  void DeliverReply(const Payload& frame) {
    absl::StatusOr<ReplyFrame> reply = DecodeReply(frame);
    std::map<uint64_t, Open>::node_type answered;
    if (reply.ok()) {
      MutexLock lock(&mu_);
      const auto it = open_.find(reply->request_id);
      if (it != open_.end() && it->second.is_telling) {
        it->second.reply = std::move(reply->reply);
        return;
      }
      answered = open_.extract(reply->request_id);
    }
    if (answered.empty()) {
      LOG(ERROR) << "server sent a reply that answers no open request; closing the stream "
                 << reply.status();
      return Cancel();
    }
    answered.mapped().Answer(std::move(reply->reply));
  }

  void AnswerAll(const grpc::Status& status) {
    std::deque<Outgoing> outgoing;
    std::map<uint64_t, Open> open;
    {
      MutexLock lock(&mu_);
      is_broken_ = true;
      outgoing.swap(outgoing_);
      open.swap(open_);
    }
    for (auto& [id, exchange] : open) {
      exchange.Answer(ErrorReply(absl::UnavailableError(
          absl::StrCat("connection to the server broke: ", status.error_message()))));
    }
  }

  GrpcEndpoint* const endpoint_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;  // used by reads alone, one at a time
  std::shared_ptr<Stream> self_;

  mutable Mutex mu_;
  bool is_broken_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_request_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mu_);
  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mu_);  // the front one is being written
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
  const std::shared_ptr<Stream> stream = OpenStream();
  if (stream != nullptr && stream->Exchange(request, sent, done)) return;
  sent();
  done(ErrorReply(absl::UnavailableError("connection to the server broke")));
}

std::shared_ptr<GrpcEndpoint::Stream> GrpcEndpoint::OpenStream() {
  MutexLock lock(&mu_);
  if (is_closing_) return nullptr;
  if (stream_ == nullptr || stream_->is_broken()) {
    stream_ = std::make_shared<Stream>(this);
    ++live_streams_;
    stream_->Start(connection_->stub());
  }
  return stream_;
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
