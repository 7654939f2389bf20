#include "common/transport/ucx_connection.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/status_macros.h"
#include "common/transport/message_batch.h"
#include "common/transport/ucx_address.h"

namespace capstan {
namespace {

// Of active messages.
constexpr unsigned kGreeting = 1;
constexpr unsigned kMessage = 2;
constexpr unsigned kGoodbye = 3;
constexpr unsigned kGrant = 4;  // its header is a number of bytes
constexpr unsigned kBatch = 5;  // of messages: see message_batch.h

// Grants go out when they are worth a message: for a part of the window.
constexpr uint64_t kGrantsInWindow = 4;

// UCX sends what lies in one piece.
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

absl::Status SetHandler(UcxThread* thread, unsigned id, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = id;
  handler.cb = callback;
  handler.arg = thread;
  return UcxStatus(ucp_worker_set_am_recv_handler(thread->worker(), &handler),
                   "ucp_worker_set_am_recv_handler");
}

}  // namespace

// A message that UCX is sending, or a payload that it is fetching.
struct UcxConnection::Operation {
  UcxConnection* connection = nullptr;  // null once that is destroyed
  unsigned id = kMessage;
  std::string header;
  Payload payload;
  std::string batch;                             // of small messages, instead of the two
  std::vector<absl::AnyInvocable<void()>> sent;  // of all that go together
  std::unique_ptr<UcxIncoming> incoming;
  uint64_t fetched_bytes = 0;  // of what is incoming

  // To be used again.
  void Free() {
    payload.Clear();
    sent.clear();
    incoming = nullptr;
    // One for each connection is kept, and not one for each operation.
    if (connection != nullptr && !batch.empty()) connection->spare_batch_ = std::move(batch);
    batch = std::string();
    if (connection != nullptr) connection->free_operations_.push_back(this);
  }
};

absl::StatusOr<std::unique_ptr<UcxConnection>> UcxConnection::Connect(UcxThread* thread,
                                                                      const std::string& address,
                                                                      Receiver* receiver) {
  ASSIGN_OR_RETURN(const UcxAddress resolved, ResolveUcxAddress(address));
  std::unique_ptr<UcxConnection> connection(new UcxConnection(thread, receiver));
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = resolved.sockaddr();
  RETURN_IF_ERROR(connection->Create(&params));
  connection->is_client_ = true;
  Signal(connection->endpoint_, kGreeting);
  return connection;
}

absl::StatusOr<std::unique_ptr<UcxConnection>> UcxConnection::Accept(UcxThread* thread,
                                                                     ucp_conn_request_h request,
                                                                     Receiver* receiver,
                                                                     uint64_t window_bytes) {
  std::unique_ptr<UcxConnection> connection(new UcxConnection(thread, receiver));
  connection->window_bytes_ = window_bytes;
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  RETURN_IF_ERROR(connection->Create(&params));
  return connection;
}

absl::Status UcxConnection::Create(ucp_ep_params_t* params) {
  operations_ = std::make_shared<Operations>();
  RETURN_IF_ERROR(SetHandler(thread_, kGreeting, &OnGreeting));
  RETURN_IF_ERROR(SetHandler(thread_, kMessage, &OnMessage));
  RETURN_IF_ERROR(SetHandler(thread_, kGoodbye, &OnGoodbye));
  RETURN_IF_ERROR(SetHandler(thread_, kGrant, &OnGrant));
  RETURN_IF_ERROR(SetHandler(thread_, kBatch, &OnBatch));
  // UCX 1.13 uses shared memory only without error handling of its own; connections that begin with
  // an address have their ends told all the same.
  params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params->err_mode = UCP_ERR_HANDLING_MODE_NONE;
  params->err_handler.cb = &OnError;
  params->err_handler.arg = thread_;
  RETURN_IF_ERROR(UcxStatus(ucp_ep_create(thread_->worker(), params, &endpoint_), "ucp_ep_create"));
  thread_->connections()[endpoint_] = this;
  thread_->setting_up().insert(endpoint_);
  return absl::OkStatus();
}

UcxConnection::~UcxConnection() {
  if (endpoint_ == nullptr) return;
  Flush();
  thread_->FlushNoMore(this);
  thread_->connections().erase(endpoint_);
  KeepWhatUcxHas();
  for (const ToFetch& lost : to_fetch_) ucp_am_data_release(thread_->worker(), lost.data);
  // The endpoint stays until the end of the thread: UCX 1.13 cannot close a broken one of this
  // mode, and would read memory that it has freed when a message to a closed one arrives.
  if (is_greeted_ && !is_broken_) Signal(endpoint_, kGoodbye);
}

void UcxConnection::KeepWhatUcxHas() {
  for (Operation* const waiting : std::exchange(waiting_, {})) waiting->Free();
  const absl::flat_hash_set<Operation*> free(free_operations_.begin(), free_operations_.end());
  Operations kept;
  for (std::unique_ptr<Operation>& operation : *operations_) {
    if (free.contains(operation.get())) continue;
    operation->connection = nullptr;
    kept.push_back(std::move(operation));
  }
  *operations_ = std::move(kept);
  if (!operations_->empty()) thread_->Keep(operations_);
}

UcxConnection::Operation* UcxConnection::TakeOperation() {
  if (free_operations_.empty()) {
    operations_->push_back(std::make_unique<Operation>());
    operations_->back()->connection = this;
    return operations_->back().get();
  }
  Operation* const operation = free_operations_.back();
  free_operations_.pop_back();
  return operation;
}

void UcxConnection::Send(std::string header, Payload payload, absl::AnyInvocable<void()> sent) {
  if (is_broken_) return;
  Operation* const operation = TakeOperation();
  operation->id = kMessage;
  operation->header = std::move(header);
  operation->payload = InOnePiece(std::move(payload));
  operation->sent.push_back(std::move(sent));
  waiting_.push_back(operation);
  SubmitWaiting();
}

bool UcxConnection::IsWithinWindow(uint64_t bytes) const {
  return ungranted_bytes_ + bytes <= window_bytes_ ||
         ungranted_bytes_ <= window_bytes_ / kGrantsInWindow;
}

void UcxConnection::SubmitWaiting() {
  // What is sent may call back, and send more: that goes after what goes now.
  if (!is_greeted_ || std::exchange(is_submitting_, true)) return;
  while (!waiting_.empty() && !is_broken_) {
    Operation* const operation = waiting_.front();
    if (is_client_) {
      const uint64_t bytes = kOverheadBytes + operation->payload.size_bytes();
      if (window_bytes_ == 0 || !IsWithinWindow(bytes)) break;
      ungranted_bytes_ += bytes;
    }
    waiting_.pop_front();
    if (AddToBatch(operation)) continue;
    Flush();
    Submit(operation);
  }
  is_submitting_ = false;
}

bool UcxConnection::AddToBatch(Operation* operation) {
  const size_t bytes = BatchedBytes(operation->header, operation->payload);
  // What is alone does not wait.
  const bool is_first = std::exchange(round_, thread_->round()) != thread_->round();
  if (is_first || bytes > kBatchBytes / 2) return false;
  if (batch_ != nullptr && batch_->batch.size() + bytes > kBatchBytes) Flush();
  if (batch_ == nullptr) {
    batch_ = TakeOperation();
    batch_->id = kBatch;
    batch_->batch = std::move(spare_batch_);
    batch_->batch.clear();
    thread_->FlushSoon(this);
  }
  AppendToBatch(operation->header, operation->payload, &batch_->batch);
  batch_->sent.push_back(std::move(operation->sent[0]));
  operation->Free();
  return true;
}

void UcxConnection::Flush() {
  while (!sent_.empty()) {
    Operation* const operation = sent_.front();
    sent_.pop_front();
    Complete(operation);
  }
  if (batch_ == nullptr) return;
  Operation* const batch = std::exchange(batch_, nullptr);
  is_broken_ ? batch->Free() : Submit(batch);
}

void UcxConnection::Grant(uint64_t payload_bytes) {
  to_grant_bytes_ += kOverheadBytes + payload_bytes;
  // What is left over is less than a part of the window: with that, any message may be sent.
  if (to_grant_bytes_ * kGrantsInWindow <= window_bytes_ || is_broken_) return;
  ungranted_bytes_ -= to_grant_bytes_;
  SendGrant(std::exchange(to_grant_bytes_, 0));
}

void UcxConnection::SendGrant(uint64_t bytes) {
  Operation* const operation = TakeOperation();
  operation->id = kGrant;
  operation->header.assign(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  Submit(operation);
}

void UcxConnection::Signal(ucp_ep_h endpoint, unsigned id) {
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  void* const request = ucp_am_send_nbx(endpoint, id, nullptr, 0, nullptr, 0, &params);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

ucs_status_t UcxConnection::OnGreeting(void* argument, const void* /*header*/,
                                       size_t /*header_length*/, void* /*data*/, size_t /*length*/,
                                       const ucp_am_recv_param_t* param) {
  auto* const thread = static_cast<UcxThread*>(argument);
  thread->setting_up().erase(param->reply_ep);
  const auto found = thread->connections().find(param->reply_ep);
  if (found == thread->connections().end()) {
    // It was closed here while it was set up.
    Signal(param->reply_ep, kGoodbye);
    return UCS_OK;
  }
  UcxConnection* const connection = found->second;
  if (connection->is_broken_ || std::exchange(connection->is_greeted_, true)) return UCS_OK;
  // UCX 1.13 ends the process when a large message waits in it while the connection is set up: so
  // greetings go to and fro first.
  if (!connection->is_client_) {
    Signal(connection->endpoint_, kGreeting);
    connection->SendGrant(connection->window_bytes_);
  }
  connection->SubmitWaiting();
  return UCS_OK;
}

ucs_status_t UcxConnection::OnGrant(void* argument, const void* header, size_t header_length,
                                    void* /*data*/, size_t /*length*/,
                                    const ucp_am_recv_param_t* param) {
  auto& connections = static_cast<UcxThread*>(argument)->connections();
  const auto found = connections.find(param->reply_ep);
  uint64_t bytes;
  if (found == connections.end() || header_length != sizeof(bytes)) return UCS_OK;
  std::memcpy(&bytes, header, sizeof(bytes));
  UcxConnection* const connection = found->second;
  if (!connection->is_client_) return UCS_OK;
  if (connection->window_bytes_ == 0) {
    // The first one tells the window.
    connection->window_bytes_ = bytes;
  } else {
    connection->ungranted_bytes_ -= std::min(bytes, connection->ungranted_bytes_);
  }
  connection->SubmitWaiting();
  return UCS_OK;
}

ucs_status_t UcxConnection::OnGoodbye(void* argument, const void* /*header*/,
                                      size_t /*header_length*/, void* /*data*/, size_t /*length*/,
                                      const ucp_am_recv_param_t* param) {
  auto* const thread = static_cast<UcxThread*>(argument);
  thread->setting_up().erase(param->reply_ep);
  OnError(thread, param->reply_ep, UCS_ERR_CONNECTION_RESET);
  return UCS_OK;
}

void UcxConnection::Submit(Operation* operation) {
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  params.cb.send = &OnSent;
  params.user_data = operation;
  params.flags = UCP_AM_SEND_FLAG_REPLY;
  if (operation->payload.size_bytes() >= kFetchedBytes) params.flags |= UCP_AM_SEND_FLAG_RNDV;
  if (operation->id == kBatch) params.flags |= UCP_AM_SEND_FLAG_EAGER;
  const Payload::Fragments& fragments = operation->payload.fragments();
  params.datatype = ucp_dt_make_contig(1);
  const std::string& header = operation->header;
  void* const request =
      operation->id == kBatch
          ? ucp_am_send_nbx(endpoint_, kBatch, nullptr, 0, operation->batch.data(),
                            operation->batch.size(), &params)
          : ucp_am_send_nbx(endpoint_, operation->id, header.data(), header.size(),
                            fragments.empty() ? nullptr : fragments[0].data(),
                            operation->payload.size_bytes(), &params);
  if (UCS_PTR_IS_ERR(request)) {
    const ucs_status_t status = UCS_PTR_STATUS(request);
    operation->Free();
    Break(status);
  } else if (request == nullptr) {
    OnSent(nullptr, UCS_OK, operation);
  }
}

void UcxConnection::OnSent(void* request, ucs_status_t status, void* argument) {
  auto* const operation = static_cast<Operation*>(argument);
  if (request != nullptr) ucp_request_free(request);
  UcxConnection* const connection = operation->connection;
  if (connection == nullptr || status != UCS_OK) {
    operation->Free();
    if (connection != nullptr) connection->Break(status);
    return;
  }
  const bool has_waited_in_ucx =
      request != nullptr && operation->payload.size_bytes() < kFetchedBytes;
  if (!has_waited_in_ucx) return connection->Complete(operation);
  // UCX 1.13 is sending what has waited: what is sent now would overtake the rest of that.
  if (connection->sent_.empty()) connection->thread_->FlushSoon(connection);
  connection->sent_.push_back(operation);
}

void UcxConnection::Complete(Operation* operation) {
  operation->payload.Clear();
  if (!is_broken_) {
    for (absl::AnyInvocable<void()>& sent : operation->sent) sent();
  }
  operation->Free();
}

ucs_status_t UcxConnection::OnBatch(void* argument, const void* /*header*/,
                                    size_t /*header_length*/, void* data, size_t length,
                                    const ucp_am_recv_param_t* param) {
  auto& connections = static_cast<UcxThread*>(argument)->connections();
  const auto found = connections.find(param->reply_ep);
  if (found == connections.end()) return UCS_OK;
  UcxConnection* const connection = found->second;
  const bool is_here = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  const absl::Span<const uint8_t> batch(static_cast<const uint8_t*>(data), is_here ? length : 0);
  const bool is_whole = ReadBatch(
      batch, [connection](absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload) {
        if (connection->is_broken_) return false;
        connection->Take(header, payload);
        return true;
      });
  if (!is_here || !is_whole) connection->Break(UCS_ERR_INVALID_PARAM);
  return UCS_OK;
}

ucs_status_t UcxConnection::OnMessage(void* argument, const void* header, size_t header_length,
                                      void* data, size_t length, const ucp_am_recv_param_t* param) {
  auto& connections = static_cast<UcxThread*>(argument)->connections();
  const auto connection = connections.find(param->reply_ep);
  // Of a connection that was closed here: UCX drops it.
  if (connection == connections.end() || connection->second->is_broken_) return UCS_OK;
  const absl::Span<const uint8_t> header_bytes(static_cast<const uint8_t*>(header), header_length);
  // UCX 1.13 has nothing to fetch of an empty one, and would not let go of it later.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 && length > 0) {
    return connection->second->TakeLarge(header_bytes, data, length);
  }
  connection->second->Take(header_bytes, {static_cast<const uint8_t*>(data), length});
  return UCS_OK;
}

bool UcxConnection::CountTaken(size_t payload_bytes) {
  if (is_client_) return true;
  const uint64_t bytes = kOverheadBytes + payload_bytes;
  if (!IsWithinWindow(bytes)) {
    LOG(WARNING) << "a worker has sent more than it was granted: " << ungranted_bytes_ << " and "
                 << bytes << " of " << window_bytes_ << " bytes; its connection is closed";
    Break(UCS_ERR_EXCEEDS_LIMIT);
    return false;
  }
  ungranted_bytes_ += bytes;
  return true;
}

void UcxConnection::Take(absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload) {
  if (!CountTaken(payload.size())) return;
  const std::unique_ptr<UcxIncoming> incoming = receiver_->OnMessage(header, payload.size());
  if (incoming == nullptr) return;
  if (!payload.empty()) std::memcpy(incoming->buffer(), payload.data(), payload.size());
  incoming->Done(absl::OkStatus());
}

ucs_status_t UcxConnection::TakeLarge(absl::Span<const uint8_t> header, void* data,
                                      size_t payload_bytes) {
  if (!CountTaken(payload_bytes)) return UCS_OK;
  // Headers that wait are no longer than what they count: a message with a longer one, which no
  // worker sends, does not wait for those before it.
  const bool may_wait = header.size() <= kOverheadBytes;
  if (!may_wait || (to_fetch_.empty() && MayFetch())) {
    return Fetch(header, data, payload_bytes) ? UCS_INPROGRESS : UCS_OK;
  }
  to_fetch_.push_back({std::string(header.begin(), header.end()), data, payload_bytes});
  return UCS_INPROGRESS;
}

bool UcxConnection::Fetch(absl::Span<const uint8_t> header, void* data, size_t payload_bytes) {
  std::unique_ptr<UcxIncoming> incoming = receiver_->OnMessage(header, payload_bytes);
  if (incoming == nullptr) return false;
  Operation* const operation = TakeOperation();
  operation->incoming = std::move(incoming);
  operation->fetched_bytes = payload_bytes;
  fetching_bytes_ += payload_bytes;
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.recv_am = &OnReceived;
  params.user_data = operation;
  void* const request = ucp_am_recv_data_nbx(thread_->worker(), data, operation->incoming->buffer(),
                                             payload_bytes, &params);
  if (!UCS_PTR_IS_PTR(request)) {
    OnReceived(nullptr, UCS_PTR_STATUS(request), payload_bytes, operation);
  }
  return true;
}

void UcxConnection::FetchWaiting() {
  // What is fetched at once does not make calls within calls.
  if (std::exchange(is_fetch_loop_, true)) return;
  while (!to_fetch_.empty() && MayFetch() && !is_broken_) {
    const ToFetch next = std::move(to_fetch_.front());
    to_fetch_.pop_front();
    const auto* const header = reinterpret_cast<const uint8_t*>(next.header.data());
    if (!Fetch({header, next.header.size()}, next.data, next.payload_bytes)) {
      ucp_am_data_release(thread_->worker(), next.data);
    }
  }
  is_fetch_loop_ = false;
}

void UcxConnection::OnReceived(void* request, ucs_status_t status, size_t /*length*/,
                               void* argument) {
  auto* const operation = static_cast<Operation*>(argument);
  if (request != nullptr) ucp_request_free(request);
  const std::unique_ptr<UcxIncoming> incoming = std::move(operation->incoming);
  UcxConnection* const connection = operation->connection;
  const uint64_t fetched_bytes = operation->fetched_bytes;
  operation->Free();
  if (connection == nullptr || connection->is_broken_) return;
  connection->fetching_bytes_ -= fetched_bytes;
  // What waits does not wait for work on large payloads.
  connection->thread_->Flush();
  incoming->Done(UcxStatus(status, "ucp_am_recv_data_nbx"));
  connection->FetchWaiting();
}

void UcxConnection::OnError(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
  auto* const thread = static_cast<UcxThread*>(argument);
  thread->setting_up().erase(endpoint);
  const auto connection = thread->connections().find(endpoint);
  if (connection != thread->connections().end()) connection->second->Break(status);
}

void UcxConnection::Break(ucs_status_t status) {
  if (std::exchange(is_broken_, true)) return;
  // Later: the receiver may destroy this connection, and open another one.
  thread_->RunLater([thread = thread_, endpoint = endpoint_, status] {
    const auto connection = thread->connections().find(endpoint);
    if (connection == thread->connections().end()) return;
    connection->second->receiver_->OnBroken(UcxStatus(status, "the connection broke"));
  });
}

}  // namespace capstan
