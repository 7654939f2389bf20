#include "common/transport/ucx/ucx_endpoint.h"

#include <glog/logging.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/tensor/slicing.h"
#include "common/wire/exchange_header.h"

namespace capstan {
namespace {

// A live server answers over UCX within a round trip. It never answers if the system denies it
// access to this process's shared memory.
constexpr absl::Duration kLongestOpening = absl::Seconds(20);

}  // namespace

// A reply with its values still arriving.
class UcxEndpoint::ArrivingReply : public UcxIncoming {
 public:
  explicit ArrivingReply(UcxEndpoint* endpoint) : endpoint_(endpoint) {}

  ReplyFrame* frame() { return &frame_; }
  // Requires a decoded frame.
  void SetBuffer(size_t bytes, absl::Span<float> destination) {
    if (bytes == 0) return;
    if (destination.size() * sizeof(float) == bytes) {
      buffer_ = reinterpret_cast<uint8_t*>(destination.data());
      frame_.reply.values = Payload(std::shared_ptr<const void>());
    } else {
      std::shared_ptr<uint8_t> memory = endpoint_->buffers_.Take(bytes);
      buffer_ = memory.get();
      frame_.reply.values = Payload(std::move(memory));
    }
    frame_.reply.values.Append({buffer_, bytes});
  }

  void* buffer() override { return buffer_; }

  void Done(absl::Status received) override {
    const auto it = endpoint_->open_.find(frame_.request_id);
    if (it == endpoint_->open_.end()) return;
    Open open = std::move(it->second);
    endpoint_->open_.erase(it);
    open.Answer(received.ok() ? std::move(frame_.reply) : ErrorReply(std::move(received)));
  }

 private:
  UcxEndpoint* const endpoint_;
  ReplyFrame frame_;
  uint8_t* buffer_ = nullptr;
};

UcxEndpoint::~UcxEndpoint() {
  thread_->RunAndWait([this] {
    is_closing_ = true;
    End(absl::UnavailableError("the connection to the server is closing"));
  });
  // The streams' tasks own the streams.
  opener_.AwaitEnd();
}

void UcxEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                           ReplyCallback done) {
  if (thread_->is_current()) {
    return ExchangeOnThread(std::move(request), std::move(delivered), std::move(done));
  }
  thread_->RunLater([this, request = std::move(request), delivered = std::move(delivered),
                     done = std::move(done)]() mutable {
    ExchangeOnThread(std::move(request), std::move(delivered), std::move(done));
  });
}

void UcxEndpoint::ExchangeOnThread(ExchangeRequest&& request, DeliveredCallback delivered,
                                   ReplyCallback done) {
  if (is_closing_) {
    delivered();
    return done(ErrorReply(absl::UnavailableError("the connection to the server is closing")));
  }
  if (stream_ == nullptr) OpenStream();
  const uint64_t id = ++last_request_id_;
  open_.emplace(id, Open{std::move(delivered), std::move(done), request.destination});
  if (connection_ == nullptr) {
    waiting_.push_back({id, std::move(request)});
  } else {
    Send(id, std::move(request));
  }
}

void UcxEndpoint::Send(uint64_t id, ExchangeRequest&& request) {
  EncodeHeader(id, request, &header_);
  connection_->Send(header_, TakePayload(std::move(request)), [this, id] {
    const auto it = open_.find(id);
    if (it == open_.end() || !it->second.delivered) return;
    // The callback may change open_.
    std::exchange(it->second.delivered, nullptr)();
  });
}

void UcxEndpoint::OpenStream() {
  // Ignores events of older streams.
  GrpcUcxStream::Callbacks callbacks;
  callbacks.on_invitation = [this](const StreamPointer& stream,
                                   const v1::UcxInvitation& invitation) {
    thread_->RunLater([this, stream, invitation] {
      if (stream == stream_) Connect(invitation);
    });
  };
  callbacks.on_end = [this](const StreamPointer& stream, const absl::Status& status) {
    thread_->RunLater([this, stream, status] {
      if (stream == stream_) End(status);
    });
  };
  stream_ = opener_.Open(std::move(callbacks));
  late_ = clock_->RunAfter(kLongestOpening, [this, stream = stream_] {
    thread_->RunLater([this, stream] {
      if (stream == stream_) EndIfNotOpen();
    });
  });
}

void UcxEndpoint::Connect(const v1::UcxInvitation& invitation) {
  auto connection = UcxConnection::Connect(thread_, invitation, this);
  if (!connection.ok()) return End(connection.status());
  connection_ = *std::move(connection);
  std::deque<Waiting> waiting;
  waiting.swap(waiting_);
  for (Waiting& next : waiting) Send(next.id, std::move(next.request));
}

void UcxEndpoint::EndIfNotOpen() {
  const std::string time = absl::FormatDuration(kLongestOpening);
  if (connection_ == nullptr) {
    End(absl::UnavailableError(absl::StrCat("the server has not answered within ", time)));
  } else if (!connection_->is_open()) {
    const std::string text = absl::StrCat("the server has not answered over UCX within ", time);
    End(has_been_open_ ? absl::UnavailableError(text) : absl::UnimplementedError(text));
  }
}

void UcxEndpoint::End(const absl::Status& status) {
  if (stream_ != nullptr) {
    clock_->Cancel(late_);
    stream_->Cancel();
  }
  stream_ = nullptr;
  if (connection_ != nullptr && connection_->is_open()) has_been_open_ = true;
  connection_ = nullptr;
  waiting_.clear();
  AnswerAll(status);
}

std::unique_ptr<UcxIncoming> UcxEndpoint::OnMessage(absl::Span<const uint8_t> header,
                                                    size_t payload_bytes) {
  auto reply = std::make_unique<ArrivingReply>(this);
  if (absl::Status status = DecodeHeader(header, reply->frame()); !status.ok()) {
    return Refuse(status);
  }
  const auto it = open_.find(reply->frame()->request_id);
  if (it == open_.end()) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("expected replies to open requests, got one to request ",
                     reply->frame()->request_id, ": ", reply->frame()->reply.status.ToString())));
  }
  if (payload_bytes > kMaxSliceBytes) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        "expected values of at most ", kMaxSliceBytes, " bytes, got ", payload_bytes)));
  }
  reply->SetBuffer(payload_bytes, it->second.destination);
  return reply;
}

std::unique_ptr<UcxIncoming> UcxEndpoint::Refuse(const absl::Status& status) {
  LOG(ERROR) << "closing a connection over UCX: its server has sent a wrong message: " << status;
  connection_->Break(status);
  return nullptr;
}

void UcxEndpoint::OnBroken(const absl::Status& status) { End(status); }

void UcxEndpoint::AnswerAll(const absl::Status& status) {
  const std::string text = absl::StrCat("connection over UCX to the server at ", address_, ": ");
  absl::Status told(absl::StatusCode::kUnavailable, absl::StrCat(text, status.message()));
  if (absl::IsUnimplemented(status)) {
    told = absl::UnimplementedError(absl::StrCat(
        text, status.message().empty() ? "it has no UCX" : status.message(),
        "; use --transport=grpc or auto, or on a network that you trust ",
        is_encrypted_ ? "--insecure_data_plane" : "--field=transport.ucx_transports=tcp,sm,self"));
  } else if (absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) {
    // Trying again would not help a worker that is not admitted.
    told = absl::Status(status.code(), told.message());
  }
  absl::flat_hash_map<uint64_t, Open> open;
  open.swap(open_);
  for (auto& [id, exchange] : open) exchange.Answer(ErrorReply(told));
}

}  // namespace capstan
