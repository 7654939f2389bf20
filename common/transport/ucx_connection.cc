#include "common/transport/ucx_connection.h"

#include <glog/logging.h>

#include <cstring>
#include <limits>
#include <utility>

#include "common/base/status_macros.h"
#include "common/transport/message_batch.h"
#include "common/transport/ucx_address.h"

namespace capstan {
namespace {

absl::Status SetHandler(UcxThread* thread, UcxMessageId id, ucp_am_recv_callback_t callback) {
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

absl::StatusOr<std::unique_ptr<UcxConnection>> UcxConnection::Connect(UcxThread* thread,
                                                                      const std::string& address,
                                                                      Receiver* receiver) {
  ASSIGN_OR_RETURN(const UcxAddress resolved, ResolveUcxAddress(address));
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = resolved.sockaddr();
  ASSIGN_OR_RETURN(const ucp_ep_h endpoint, CreateEndpoint(thread, &params));
  std::unique_ptr<UcxConnection> connection(
      new UcxConnection(thread, endpoint, receiver, /*window=*/std::nullopt));
  UcxSender::Signal(endpoint, kUcxGreeting);
  return connection;
}

absl::StatusOr<std::unique_ptr<UcxConnection>> UcxConnection::Accept(UcxThread* thread,
                                                                     ucp_conn_request_h request,
                                                                     Receiver* receiver,
                                                                     uint64_t window_bytes) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  ASSIGN_OR_RETURN(const ucp_ep_h endpoint, CreateEndpoint(thread, &params));
  return std::unique_ptr<UcxConnection>(
      new UcxConnection(thread, endpoint, receiver, UcxWindow(window_bytes)));
}

absl::StatusOr<ucp_ep_h> UcxConnection::CreateEndpoint(UcxThread* thread, ucp_ep_params_t* params) {
  RETURN_IF_ERROR(SetHandler(thread, kUcxGreeting, &OnGreeting));
  RETURN_IF_ERROR(SetHandler(thread, kUcxMessage, &OnMessage));
  RETURN_IF_ERROR(SetHandler(thread, kUcxGoodbye, &OnGoodbye));
  RETURN_IF_ERROR(SetHandler(thread, kUcxGrant, &OnGrant));
  RETURN_IF_ERROR(SetHandler(thread, kUcxBatch, &OnBatch));
  // UCX 1.13 uses shared memory only without error handling of its own; connections that begin with
  // an address have their ends told all the same.
  params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params->err_mode = UCP_ERR_HANDLING_MODE_NONE;
  params->err_handler.cb = &OnError;
  params->err_handler.arg = thread;
  ucp_ep_h endpoint = nullptr;
  RETURN_IF_ERROR(UcxStatus(ucp_ep_create(thread->worker(), params, &endpoint), "ucp_ep_create"));
  return endpoint;
}

UcxConnection::UcxConnection(UcxThread* thread, ucp_ep_h endpoint, Receiver* receiver,
                             std::optional<UcxWindow> window)
    : thread_(thread),
      endpoint_(endpoint),
      receiver_(receiver),
      window_(window),
      sender_(thread, endpoint, [this](ucs_status_t status) { Break(status); }),
      fetcher_(thread, is_server() ? kFetchingBytes : std::numeric_limits<uint64_t>::max(),
               [this](absl::Span<const uint8_t> header, size_t payload_bytes) {
                 return receiver_->OnMessage(header, payload_bytes);
               }) {
  thread_->connections()[endpoint_] = this;
  thread_->setting_up().insert(endpoint_);
}

UcxConnection::~UcxConnection() {
  thread_->connections().erase(endpoint_);
  // The endpoint stays until the end of the thread: UCX 1.13 cannot close a broken one of this
  // mode, and would read memory that it has freed when a message to a closed one arrives.
  if (!is_greeted_ || is_broken_) return;
  sender_.Flush();
  sender_.Stop();
  if (!is_broken_) UcxSender::Signal(endpoint_, kUcxGoodbye);
}

void UcxConnection::Grant(uint64_t payload_bytes) {
  to_grant_bytes_ += UcxWindow::Count(payload_bytes);
  if (to_grant_bytes_ <= window_->grant_bytes() || is_broken_) return;
  window_->Grant(to_grant_bytes_);
  sender_.SendGrant(std::exchange(to_grant_bytes_, 0));
}

UcxConnection* UcxConnection::Find(void* argument, const ucp_am_recv_param_t* param) {
  const auto& connections = static_cast<UcxThread*>(argument)->connections();
  const auto found = connections.find(param->reply_ep);
  return found == connections.end() || found->second->is_broken_ ? nullptr : found->second;
}

ucs_status_t UcxConnection::OnGreeting(void* argument, const void* /*header*/,
                                       size_t /*header_length*/, void* /*data*/, size_t /*length*/,
                                       const ucp_am_recv_param_t* param) {
  auto* const thread = static_cast<UcxThread*>(argument);
  thread->setting_up().erase(param->reply_ep);
  if (thread->connections().contains(param->reply_ep)) {
    if (UcxConnection* const connection = Find(argument, param)) connection->TakeGreeting();
  } else {
    // It was closed here while it was set up.
    UcxSender::Signal(param->reply_ep, kUcxGoodbye);
  }
  return UCS_OK;
}

void UcxConnection::TakeGreeting() {
  if (std::exchange(is_greeted_, true) || !is_server()) return;
  // UCX 1.13 ends the process when a large message waits in it while the connection is set up: so
  // greetings go to and fro first.
  UcxSender::Signal(endpoint_, kUcxGreeting);
  sender_.SendGrant(window_->bytes());
  sender_.Open();
}

ucs_status_t UcxConnection::OnGrant(void* argument, const void* header, size_t header_length,
                                    void* /*data*/, size_t /*length*/,
                                    const ucp_am_recv_param_t* param) {
  UcxConnection* const connection = Find(argument, param);
  uint64_t bytes;
  if (connection == nullptr || header_length != sizeof(bytes)) return UCS_OK;
  std::memcpy(&bytes, header, sizeof(bytes));
  connection->TakeGrant(bytes);
  return UCS_OK;
}

void UcxConnection::TakeGrant(uint64_t bytes) {
  if (is_server()) return;
  // Who grants has been greeted, and has greeted.
  is_greeted_ = true;
  sender_.is_open() ? sender_.Granted(bytes) : sender_.Open(UcxWindow(bytes));
}

ucs_status_t UcxConnection::OnGoodbye(void* argument, const void* /*header*/,
                                      size_t /*header_length*/, void* /*data*/, size_t /*length*/,
                                      const ucp_am_recv_param_t* param) {
  OnError(argument, param->reply_ep, UCS_ERR_CONNECTION_RESET);
  return UCS_OK;
}

ucs_status_t UcxConnection::OnBatch(void* argument, const void* /*header*/,
                                    size_t /*header_length*/, void* data, size_t length,
                                    const ucp_am_recv_param_t* param) {
  UcxConnection* const connection = Find(argument, param);
  if (connection == nullptr) return UCS_OK;
  const bool is_here = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (is_here) {
    connection->TakeBatch({static_cast<const uint8_t*>(data), length});
  } else {
    connection->Break(UCS_ERR_INVALID_PARAM);
  }
  return UCS_OK;
}

void UcxConnection::TakeBatch(absl::Span<const uint8_t> batch) {
  sender_.set_is_taking_batch(true);
  const bool is_whole =
      ReadBatch(batch, [this](absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload) {
        if (is_broken_) return false;
        Take(header, payload);
        return true;
      });
  sender_.set_is_taking_batch(false);
  if (!is_whole) Break(UCS_ERR_INVALID_PARAM);
}

ucs_status_t UcxConnection::OnMessage(void* argument, const void* header, size_t header_length,
                                      void* data, size_t length, const ucp_am_recv_param_t* param) {
  UcxConnection* const connection = Find(argument, param);
  // Of a connection that was closed here: UCX drops it.
  if (connection == nullptr) return UCS_OK;
  const absl::Span<const uint8_t> header_bytes(static_cast<const uint8_t*>(header), header_length);
  // UCX 1.13 has nothing to fetch of an empty one, and would not let go of it later.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 && length > 0) {
    return connection->TakeLarge(header_bytes, data, length);
  }
  connection->Take(header_bytes, {static_cast<const uint8_t*>(data), length});
  return UCS_OK;
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
  // Headers that are kept are no longer than what they count; no worker sends longer ones.
  return fetcher_.Take(header, UcxWindow::kOverheadBytes, data, payload_bytes);
}

bool UcxConnection::CountTaken(size_t payload_bytes) {
  if (!is_server()) return true;
  const uint64_t bytes = UcxWindow::Count(payload_bytes);
  if (!window_->Takes(bytes)) {
    LOG(WARNING) << "a worker has sent more than it was granted: " << window_->used_bytes()
                 << " and " << bytes << " of " << window_->bytes()
                 << " bytes; its connection is closed";
    Break(UCS_ERR_EXCEEDS_LIMIT);
    return false;
  }
  window_->Use(bytes);
  return true;
}

void UcxConnection::OnError(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
  auto* const thread = static_cast<UcxThread*>(argument);
  thread->setting_up().erase(endpoint);
  const auto connection = thread->connections().find(endpoint);
  if (connection != thread->connections().end()) connection->second->Break(status);
}

void UcxConnection::Break(ucs_status_t status) {
  if (std::exchange(is_broken_, true)) return;
  sender_.Stop();
  fetcher_.Stop();
  // Later: the receiver may destroy this connection, and open another one.
  thread_->RunLater([thread = thread_, endpoint = endpoint_, status] {
    const auto connection = thread->connections().find(endpoint);
    if (connection == thread->connections().end()) return;
    connection->second->receiver_->OnBroken(UcxStatus(status, "the connection broke"));
  });
}

}  // namespace capstan
