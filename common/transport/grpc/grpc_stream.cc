#include "common/transport/grpc/grpc_stream.h"

#include <glog/logging.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/transport/grpc/grpc_payload.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

struct Method {
  const char* path;
  const char* call;  // as GrpcSecurity::Authorize names it
};

Method MethodOf(SenderRole role) {
  switch (role) {
    case SenderRole::kWorker:
      return {"/capstan.v1.ParameterService/Exchange", kExchangeCall};
    case SenderRole::kServer:
      return {"/capstan.v1.ReplicaService/Replicate", kReplicateCall};
  }
  return {};
}

}  // namespace

GrpcStream::GrpcStream(SecurityPointer security, const std::string& address, SenderRole role,
                       Explain explain,
                       absl::AnyInvocable<void(std::shared_ptr<GrpcStream>)> on_end)
    : security_(std::move(security)),
      address_(address),
      role_(role),
      explain_(std::move(explain)),
      on_end_(std::move(on_end)) {
  MutexLock lock(&mu_);
  frames_.UseReceipts();
  frames_.SendTogether();
}

void GrpcStream::Start(grpc::GenericStub& stub) {
  self_ = shared_from_this();
  const Method method = MethodOf(role_);
  security_->Authorize(address_, method.call, context_);
  stub.PrepareBidiStreamingCall(&context_, method.path, grpc::StubOptions(), this);
  // Allows writes outside of gRPC's callbacks, until Break.
  AddHold();
  StartRead(&incoming_);
  StartCall();
}

bool GrpcStream::Exchange(ExchangeRequest& request, DeliveredCallback& delivered,
                          ReplyCallback& done) {
  MutexLock lock(&mu_);
  if (has_ended_) return false;
  const uint64_t id = ++last_request_id_;
  Open& exchange = open_[id];
  exchange.delivered = std::move(delivered);
  exchange.done = std::move(done);
  frames_.Add({id, std::move(request), [this, id] { TellDelivered(id); }});
  WriteNextLocked();
  return true;
}

bool GrpcStream::is_broken() const {
  MutexLock lock(&mu_);
  return is_broken_;
}

void GrpcStream::OnWriteDone(bool ok) {
  StreamReceipts::Callbacks delivered;
  {
    MutexLock lock(&mu_);
    if (!ok) return;  // OnDone follows, and answers open exchanges.
    delivered = frames_.OnWritten().delivered;
    WriteNextLocked();
  }
  RunAll(std::move(delivered));
}

void GrpcStream::OnReadDone(bool ok) {
  if (!ok) return Break();
  has_read_ = true;
  ForEachFrame(
      FromByteBuffer(incoming_), DecodeReply,
      [this](bool has_next) {
        MutexLock lock(&mu_);
        frames_.set_is_taking_message(has_next);
      },
      [this](absl::StatusOr<ReplyFrame> reply) { return TakeFrame(std::move(reply)); });
  incoming_.Clear();
  {
    // The next message may be taken on another thread as soon as it is read.
    MutexLock lock(&mu_);
    frames_.set_is_taking_message(false);
  }
  StartRead(&incoming_);
  MutexLock lock(&mu_);
  WriteNextLocked();
}

void GrpcStream::OnDone(const grpc::Status& status) {
  absl::Status reason = AbslStatus(status);
  if (!has_read_ && absl::IsUnavailable(reason)) reason = explain_(reason);
  AnswerAll(std::move(reason));
  // The argument may be the last owner of this stream.
  auto on_end = std::move(on_end_);
  on_end(std::move(self_));
}

void GrpcStream::WriteNextLocked() {
  if (is_broken_) return;
  if (const grpc::ByteBuffer* message = frames_.Next(); message != nullptr) StartWrite(message);
}

void GrpcStream::TellDelivered(uint64_t id) {
  DeliveredCallback delivered;
  {
    MutexLock lock(&mu_);
    const auto it = open_.find(id);
    if (it == open_.end() || !it->second.delivered) return;
    it->second.is_telling = true;
    delivered = std::exchange(it->second.delivered, nullptr);
  }
  delivered();
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

bool GrpcStream::TakeFrame(absl::StatusOr<ReplyFrame> reply) {
  if (!reply.ok()) return Refuse(reply.status());
  absl::StatusOr<StreamReceipts::Callbacks> delivered;
  {
    MutexLock lock(&mu_);
    frames_.receipts().Receive(reply->reply.values.size_bytes());
    delivered = frames_.receipts().Acknowledge(reply->received_bytes);
  }
  if (!delivered.ok()) return Refuse(delivered.status());
  RunAll(*std::move(delivered));
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

void GrpcStream::AnswerAll(absl::Status status) {
  std::map<uint64_t, Open> open;
  {
    MutexLock lock(&mu_);
    is_broken_ = true;
    has_ended_ = true;
    frames_.Clear();
    open.swap(open_);
    if (!refused_.ok()) status = refused_;
  }
  // Trying again would not help a client that is not admitted.
  const bool is_refused = absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  const absl::Status told(is_refused ? status.code() : absl::StatusCode::kUnavailable,
                          absl::StrCat("connection to the server broke: ", status.message()));
  for (auto& [id, exchange] : open) exchange.Answer(ErrorReply(told));
}

}  // namespace capstan
