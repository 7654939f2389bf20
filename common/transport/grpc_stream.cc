#include "common/transport/grpc_stream.h"

#include <glog/logging.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/transport/grpc_payload.h"

namespace capstan {
namespace {

constexpr char kExchangeMethod[] = "/capstan.v1.ParameterService/Exchange";

}  // namespace

void GrpcStream::Start(grpc::GenericStub& stub) {
  self_ = shared_from_this();
  stub.PrepareBidiStreamingCall(&context_, kExchangeMethod, grpc::StubOptions(), this);
  // Writes start outside of reactions, until the stream breaks.
  AddHold();
  StartRead(&incoming_);
  StartCall();
}

bool GrpcStream::Exchange(ExchangeRequest& request, SentCallback& sent, ReplyCallback& done) {
  MutexLock lock(&mu_);
  if (is_broken_) return false;
  const uint64_t id = ++last_request_id_;
  Open& exchange = open_[id];
  exchange.sent = std::move(sent);
  exchange.done = std::move(done);
  outgoing_.push_back({id, std::move(request)});
  WriteNextLocked();
  return true;
}

bool GrpcStream::is_broken() const {
  MutexLock lock(&mu_);
  return is_broken_;
}

void GrpcStream::OnWriteDone(bool ok) {
  std::vector<uint64_t> sent;
  {
    MutexLock lock(&mu_);
    if (!ok) return;  // OnDone follows, and tells what is left.
    message_.Clear();
    is_writing_ = false;
    sent.swap(sent_when_written_);
    WriteNextLocked();
  }
  for (const uint64_t id : sent) TellSent(id);
}

void GrpcStream::OnReadDone(bool ok) {
  if (!ok) return Break();
  TakeMessage(FromByteBuffer(incoming_));
  incoming_.Clear();
  StartRead(&incoming_);
  // Unless what was just answered had more to say.
  MutexLock lock(&mu_);
  WriteNextLocked();
}

void GrpcStream::OnDone(const grpc::Status& status) {
  AnswerAll(status);
  // What it is given may be the last owner of this stream.
  auto on_end = std::move(on_end_);
  on_end(std::move(self_));
}

void GrpcStream::WriteNextLocked() {
  if (is_writing_ || is_taking_next_ || is_broken_) return;
  std::optional<uint64_t> next_bytes;
  if (!outgoing_.empty()) next_bytes = outgoing_.front().request.gradient.size_bytes();
  if (receipts_.IsDue(next_bytes)) {
    message_ = ToByteBuffer(EncodeRequestReceipt(receipts_.Report()), Payload());
  } else if (next_bytes.has_value()) {
    WriteExchangesLocked();
  } else {
    return;
  }
  is_writing_ = true;
  StartWrite(&message_);
}

void GrpcStream::WriteExchangesLocked() {
  GrpcMessage message;
  while (!outgoing_.empty() && message.Takes(outgoing_.front().request.gradient.size_bytes())) {
    auto [id, request] = std::move(outgoing_.front());
    outgoing_.pop_front();
    const size_t bytes = request.gradient.size_bytes();
    std::string prefix = EncodeRequestPrefix(id, request, receipts_.Report());
    message.Add(std::move(prefix), std::move(request.gradient));
    if (bytes > 0) {
      receipts_.Send(bytes, [this, id = id] { TellSent(id); });
    } else {
      sent_when_written_.push_back(id);
    }
  }
  message_ = message.Take();
}

void GrpcStream::TellSent(uint64_t id) {
  SentCallback sent;
  {
    MutexLock lock(&mu_);
    const auto it = open_.find(id);
    if (it == open_.end() || !it->second.sent) return;
    it->second.is_telling = true;
    sent = std::exchange(it->second.sent, nullptr);
  }
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

void GrpcStream::Break() {
  {
    MutexLock lock(&mu_);
    if (std::exchange(is_broken_, true)) return;
  }
  RemoveHold();
}

void GrpcStream::TakeMessage(const Payload& message) {
  NextFrames next;
  absl::StatusOr<ReplyFrame> first = DecodeReply(message, &next);
  {
    MutexLock lock(&mu_);
    is_taking_next_ = !next.empty();
  }
  bool goes_on = TakeFrame(std::move(first));
  for (size_t i = 0; i < next.size() && goes_on; ++i) goes_on = TakeFrame(DecodeReply(next[i]));
  MutexLock lock(&mu_);
  is_taking_next_ = false;
}

bool GrpcStream::TakeFrame(absl::StatusOr<ReplyFrame> reply) {
  if (!reply.ok()) return Refuse(reply.status());
  absl::StatusOr<StreamReceipts::Callbacks> received;
  {
    MutexLock lock(&mu_);
    receipts_.Receive(reply->reply.values.size_bytes());
    received = receipts_.Acknowledge(reply->received_bytes);
  }
  if (!received.ok()) return Refuse(received.status());
  RunAll(*std::move(received));
  return reply->is_receipt() || DeliverReply(*std::move(reply));
}

bool GrpcStream::DeliverReply(ReplyFrame reply) {
  std::map<uint64_t, Open>::node_type answered;
  {
    MutexLock lock(&mu_);
    const auto it = open_.find(reply.request_id);
    if (it != open_.end() && it->second.is_telling) {
      it->second.reply = std::move(reply.reply);
      return true;
    }
    answered = open_.extract(reply.request_id);
  }
  if (answered.empty()) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("expected replies to open requests, got one to request ", reply.request_id,
                     ": ", reply.reply.status.ToString())));
  }
  answered.mapped().Answer(std::move(reply.reply));
  return true;
}

bool GrpcStream::Refuse(const absl::Status& status) {
  LOG(ERROR) << "closing a stream: its server has sent a wrong message: " << status;
  {
    MutexLock lock(&mu_);
    refused_ = status;
  }
  Cancel();
  return false;
}

void GrpcStream::AnswerAll(const grpc::Status& status) {
  std::deque<Outgoing> outgoing;
  std::map<uint64_t, Open> open;
  std::string reason = status.error_message();
  {
    MutexLock lock(&mu_);
    is_broken_ = true;
    outgoing.swap(outgoing_);
    open.swap(open_);
    if (!refused_.ok()) reason = std::string(refused_.message());
  }
  for (auto& [id, exchange] : open) {
    exchange.Answer(ErrorReply(
        absl::UnavailableError(absl::StrCat("connection to the server broke: ", reason))));
  }
}

}  // namespace capstan
