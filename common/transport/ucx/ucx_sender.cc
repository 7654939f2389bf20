#include "common/transport/ucx/ucx_sender.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/wire/message_batch.h"

namespace capstan {
namespace {

// Submit needs contiguous memory.
Payload InOnePiece(Payload payload) {
  if (payload.fragments().size() <= 1) return payload;
  const std::shared_ptr<uint8_t> memory(new uint8_t[payload.size_bytes()],
                                        std::default_delete<uint8_t[]>());
  uint8_t* end = memory.get();
  for (const Payload::Fragment fragment : payload.fragments()) {
    std::memcpy(end, fragment.data(), fragment.size());
    end += fragment.size();
  }
  Payload joined{std::shared_ptr<const void>(memory)};
  joined.Append({memory.get(), payload.size_bytes()});
  return joined;
}

}  // namespace

// A message or a batch in UCX.
struct UcxSender::Operation {
  UcxSender* owner = nullptr;
  UcxMessageId id = kUcxMessage;
  std::string header;
  Payload payload;
  std::string batch;                       // of small messages, instead of header and payload
  std::vector<ReleasedCallback> released;  // one for each message

  void Clear() {
    payload.Clear();
    batch = std::string();
    released.clear();
  }
};

UcxSender::UcxSender(UcxThread* thread, ucp_ep_h endpoint,
                     absl::AnyInvocable<void(ucs_status_t)> on_error)
    : thread_(thread),
      endpoint_(endpoint),
      on_error_(std::move(on_error)),
      operations_(thread, this) {}

UcxSender::~UcxSender() {
  Flush();
  thread_->FlushNoMore(this);
}

void UcxSender::Open(std::optional<UcxWindow> window) {
  is_open_ = true;
  if (window.has_value()) window_.emplace(*window);
  SendWaiting();
}

void UcxSender::Granted(uint64_t bytes) {
  window_->Grant(bytes);
  SendWaiting();
}

bool UcxSender::MayGo(size_t payload_bytes) const {
  return is_open_ && (!window_.has_value() || window_->Takes(UcxWindow::Count(payload_bytes)));
}

void UcxSender::Send(absl::string_view header, Payload payload, ReleasedCallback released) {
  if (is_stopped_) return;
  const bool is_next = !is_starting_ && waiting_.empty() && MayGo(payload.size_bytes());
  const size_t bytes = BatchedBytes(header, payload);
  if (is_next && GoesTogether(bytes) && BatchHasRoom(bytes)) {
    return AddToBatch(header, payload, std::move(released));
  }
  waiting_.push_back({std::string(header), std::move(payload), std::move(released)});
  SendWaiting();
}

void UcxSender::SendWaiting() {
  // Callbacks may send more messages. These go after the current one.
  if (std::exchange(is_starting_, true)) return;
  while (!waiting_.empty() && !is_stopped_ && MayGo(waiting_.front().payload.size_bytes())) {
    Message message = std::move(waiting_.front());
    waiting_.pop_front();
    Start(std::move(message));
  }
  is_starting_ = false;
}

void UcxSender::Start(Message message) {
  const size_t bytes = BatchedBytes(message.header, message.payload);
  if (GoesTogether(bytes)) {
    if (!BatchHasRoom(bytes)) Flush();
    return AddToBatch(message.header, message.payload, std::move(message.released));
  }
  Flush();
  NoteStarted(message.payload.size_bytes());
  Operation* const operation = operations_.Take();
  operation->id = kUcxMessage;
  operation->header = std::move(message.header);
  operation->payload = InOnePiece(std::move(message.payload));
  operation->released.push_back(std::move(message.released));
  Submit(operation);
}

void UcxSender::NoteStarted(size_t payload_bytes) {
  if (window_.has_value()) window_->Use(UcxWindow::Count(payload_bytes));
  round_ = thread_->round();
}

bool UcxSender::GoesTogether(size_t bytes) const {
  const bool is_first = round_ != thread_->round() && !is_taking_batch_;
  return !is_first && bytes <= kBatchBytes / 2;
}

bool UcxSender::BatchHasRoom(size_t bytes) const {
  return batch_ == nullptr || batch_->batch.size() + bytes <= kBatchBytes;
}

void UcxSender::AddToBatch(absl::string_view header, const Payload& payload,
                           ReleasedCallback released) {
  NoteStarted(payload.size_bytes());
  if (batch_ == nullptr) {
    batch_ = operations_.Take();
    batch_->id = kUcxBatch;
    batch_->batch = std::move(spare_batch_);
    batch_->batch.clear();
    thread_->FlushSoon(this);
  }
  AppendToBatch(header, payload, &batch_->batch);
  batch_->released.push_back(std::move(released));
}

void UcxSender::Flush() {
  while (!released_.empty()) {
    Operation* const operation = released_.front();
    released_.pop_front();
    Complete(operation);
  }
  if (batch_ == nullptr) return;
  Operation* const batch = std::exchange(batch_, nullptr);
  is_stopped_ ? Free(batch) : Submit(batch);
}

void UcxSender::SendAtOnce(UcxMessageId id, std::string header) {
  Operation* const operation = operations_.Take();
  operation->id = id;
  operation->header = std::move(header);
  Submit(operation);
}

void UcxSender::Submit(Operation* operation) {
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  params.cb.send = &OnReleased;
  params.user_data = operation;
  params.flags = UCP_AM_SEND_FLAG_REPLY;
  if (operation->payload.size_bytes() >= kFetchedBytes) params.flags |= UCP_AM_SEND_FLAG_RNDV;
  if (operation->id == kUcxBatch) params.flags |= UCP_AM_SEND_FLAG_EAGER;
  const Payload::Fragments& fragments = operation->payload.fragments();
  params.datatype = ucp_dt_make_contig(1);
  const std::string& header = operation->header;
  void* const request =
      operation->id == kUcxBatch
          ? ucp_am_send_nbx(endpoint_, kUcxBatch, nullptr, 0, operation->batch.data(),
                            operation->batch.size(), &params)
          : ucp_am_send_nbx(endpoint_, operation->id, header.data(), header.size(),
                            fragments.empty() ? nullptr : fragments[0].data(),
                            operation->payload.size_bytes(), &params);
  if (UCS_PTR_IS_ERR(request)) {
    const ucs_status_t status = UCS_PTR_STATUS(request);
    Free(operation);
    on_error_(status);
  } else if (request == nullptr) {
    OnReleased(nullptr, UCS_OK, operation);
  }
}

void UcxSender::OnReleased(void* request, ucs_status_t status, void* argument) {
  auto* const operation = static_cast<Operation*>(argument);
  if (request != nullptr) ucp_request_free(request);
  UcxSender* const sender = operation->owner;
  if (sender == nullptr) return operation->Clear();
  if (status != UCS_OK) {
    sender->Free(operation);
    return sender->on_error_(status);
  }
  const bool has_waited_in_ucx =
      request != nullptr && operation->payload.size_bytes() < kFetchedBytes;
  if (!has_waited_in_ucx) return sender->Complete(operation);
  // UCX 1.13 is sending the messages that have waited in it. A callback's message would overtake
  // the rest of them, so the callback waits for the end of the round.
  if (sender->released_.empty()) sender->thread_->FlushSoon(sender);
  sender->released_.push_back(operation);
}

void UcxSender::Complete(Operation* operation) {
  operation->payload.Clear();
  if (!is_stopped_) {
    for (ReleasedCallback& released : operation->released) released();
  }
  Free(operation);
}

void UcxSender::Free(Operation* operation) {
  // Keeps the memory of one batch for each connection, not of one for each operation.
  if (!operation->batch.empty()) spare_batch_ = std::move(operation->batch);
  operation->Clear();
  operations_.GiveBack(operation);
}

}  // namespace capstan
