#include "common/transport/ucx_endpoint.h"

#include <glog/logging.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/frame_header.h"

namespace capstan {

// A reply whose values are on their way.
class UcxEndpoint::ArrivingReply : public UcxIncoming {
 public:
  explicit ArrivingReply(UcxEndpoint* endpoint) : endpoint_(endpoint) {}

  ReplyFrame* frame() { return &frame_; }
  // Once the frame is there.
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
    connection_ = nullptr;
    AnswerAll(absl::UnavailableError("the connection to the server is closing"));
  });
}

void UcxEndpoint::Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  if (thread_->is_current()) {
    return ExchangeOnThread(std::move(request), std::move(sent), std::move(done));
  }
  thread_->RunLater([this, request = std::move(request), sent = std::move(sent),
                     done = std::move(done)]() mutable {
    ExchangeOnThread(std::move(request), std::move(sent), std::move(done));
  });
}

void UcxEndpoint::ExchangeOnThread(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  absl::Status status = absl::OkStatus();
  if (is_closing_) {
    status = absl::UnavailableError("the connection to the server is closing");
  } else if (connection_ == nullptr) {
    auto connection = UcxConnection::Connect(thread_, address_, this);
    if (connection.ok()) connection_ = *std::move(connection);
    status = connection.status();
  }
  if (!status.ok()) {
    sent();
    return done(ErrorReply(std::move(status)));
  }
  const uint64_t id = ++last_request_id_;
  open_.emplace(id, Open{std::move(sent), std::move(done), request.destination});
  EncodeRequestHeader(id, request, &header_);
  connection_->Send(header_, std::move(request.gradient), [this, id] {
    const auto it = open_.find(id);
    if (it == open_.end() || !it->second.sent) return;
    // The callback may open and answer exchanges.
    std::exchange(it->second.sent, nullptr)();
  });
}

std::unique_ptr<UcxIncoming> UcxEndpoint::OnMessage(absl::Span<const uint8_t> header,
                                                    size_t payload_bytes) {
  auto reply = std::make_unique<ArrivingReply>(this);
  if (absl::Status status = DecodeReplyHeader(header, reply->frame()); !status.ok()) {
    LOG(ERROR) << "server at " << address_ << " sent no reply: " << status;
    return nullptr;
  }
  const auto it = open_.find(reply->frame()->request_id);
  if (it == open_.end()) return nullptr;
  reply->SetBuffer(payload_bytes, it->second.destination);
  return reply;
}

void UcxEndpoint::OnBroken(const absl::Status& status) {
  connection_ = nullptr;
  AnswerAll(absl::UnavailableError(
      absl::StrCat("connection to the server at ", address_, ": ", status.message())));
}

void UcxEndpoint::AnswerAll(const absl::Status& status) {
  absl::flat_hash_map<uint64_t, Open> open;
  open.swap(open_);
  for (auto& [id, exchange] : open) exchange.Answer(ErrorReply(status));
}

}  // namespace capstan
