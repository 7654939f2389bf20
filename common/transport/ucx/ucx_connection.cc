#include "common/transport/ucx/ucx_connection.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/wire/message_batch.h"

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

absl::Status UcxConnection::Prepare(UcxThread* thread) {
  RETURN_IF_ERROR(SetHandler(thread, kUcxGreeting, &OnGreeting));
  RETURN_IF_ERROR(SetHandler(thread, kUcxMessage, &OnMessage));
  RETURN_IF_ERROR(SetHandler(thread, kUcxGrant, &OnGrant));
  return SetHandler(thread, kUcxBatch, &OnBatch);
}

absl::StatusOr<std::unique_ptr<UcxConnection>> UcxConnection::Connect(
    UcxThread* thread, const v1::UcxInvitation& invitation, Receiver* receiver) {
  if (invitation.worker_address().empty() ||
      invitation.secret().size() != UcxGreeting::kSecretBytes) {
    return absl::UnavailableError("the server's invitation is malformed");
  }
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(invitation.worker_address().data());
  // With any other mode UCX 1.13 does not use shared memory.
  params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = &OnError;
  params.err_handler.arg = thread;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t created = ucp_ep_create(thread->worker(), &params, &endpoint);
  if (created != UCS_OK) {
    return absl::UnimplementedError(
        absl::StrCat("none of UCX's transports ", thread->transports(),
                     " connects the two ends: ", ucs_status_string(created)));
  }
  std::unique_ptr<UcxConnection> connection(
      new UcxConnection(thread, endpoint, receiver, /*window=*/std::nullopt));
  // If a large message waits in UCX 1.13 while the connection is set up, UCX ends the process. So
  // all other messages wait until the greeting is answered.
  connection->sender_.SendAtOnce(kUcxGreeting,
                                 EncodeGreeting({UcxGreeting::kVersion, invitation.secret()}));
  return connection;
}

absl::StatusOr<std::unique_ptr<UcxConnection>> UcxConnection::Accept(UcxThread* thread,
                                                                     ucp_ep_h endpoint,
                                                                     Receiver* receiver,
                                                                     uint64_t window_bytes) {
  if (thread->connections().contains(endpoint)) {
    return absl::AlreadyExistsError("a client has greeted twice");
  }
  std::unique_ptr<UcxConnection> connection(
      new UcxConnection(thread, endpoint, receiver, UcxWindow(window_bytes)));
  connection->sender_.SendAtOnce(kUcxGrant, EncodeGrant(window_bytes));
  connection->sender_.Open();
  return connection;
}

UcxConnection::UcxConnection(UcxThread* thread, ucp_ep_h endpoint, Receiver* receiver,
                             std::optional<UcxWindow> window)
    : thread_(thread),
      endpoint_(endpoint),
      receiver_(receiver),
      window_(window),
      sender_(thread, endpoint,
              [this](ucs_status_t status) { Break(UcxStatus(status, "the connection broke")); }),
      fetcher_(thread, is_server() ? kFetchingBytes : std::numeric_limits<uint64_t>::max(),
               [this](absl::Span<const uint8_t> header, size_t payload_bytes) {
                 return receiver_->OnMessage(header, payload_bytes);
               }) {
  thread_->connections()[endpoint_] = this;
}

UcxConnection::~UcxConnection() {
  sender_.Stop();
  thread_->connections().erase(endpoint_);
  // The endpoint stays until the end of the thread. UCX 1.13 cannot close an endpoint of this mode
  // once its peer is gone, and cannot take a message to a closed endpoint.
}

void UcxConnection::Grant(uint64_t payload_bytes) {
  to_grant_bytes_ += UcxWindow::Count(payload_bytes);
  if (to_grant_bytes_ <= window_->grant_bytes() || is_broken_) return;
  window_->Grant(to_grant_bytes_);
  sender_.SendAtOnce(kUcxGrant, EncodeGrant(std::exchange(to_grant_bytes_, 0)));
}

UcxConnection* UcxConnection::Find(void* argument, const ucp_am_recv_param_t* param) {
  const auto& connections = static_cast<UcxThread*>(argument)->connections();
  const auto found = connections.find(param->reply_ep);
  return found == connections.end() || found->second->is_broken_ ? nullptr : found->second;
}

ucs_status_t UcxConnection::OnGreeting(void* argument, const void* header, size_t header_length,
                                       void* /*data*/, size_t /*length*/,
                                       const ucp_am_recv_param_t* param) {
  auto& invitations = static_cast<UcxThread*>(argument)->invitations();
  const std::optional<UcxGreeting> greeting =
      DecodeGreeting({static_cast<const uint8_t*>(header), header_length});
  // A stranger's greeting may lack the endpoint for the answer.
  const bool has_reply_endpoint = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  if (!greeting.has_value() || !has_reply_endpoint) return UCS_OK;
  const auto invitation = invitations.find(greeting->secret);
  if (invitation == invitations.end()) return UCS_OK;
  UcxInviter* const inviter = invitation->second;
  invitations.erase(invitation);
  inviter->OnGreeting(greeting->version, param->reply_ep);
  return UCS_OK;
}

ucs_status_t UcxConnection::OnGrant(void* argument, const void* header, size_t header_length,
                                    void* /*data*/, size_t /*length*/,
                                    const ucp_am_recv_param_t* param) {
  UcxConnection* const connection = Find(argument, param);
  const std::optional<uint64_t> bytes =
      DecodeGrant({static_cast<const uint8_t*>(header), header_length});
  if (connection != nullptr && bytes.has_value()) connection->TakeGrant(*bytes);
  return UCS_OK;
}

void UcxConnection::TakeGrant(uint64_t bytes) {
  if (is_server()) return;
  sender_.is_open() ? sender_.Granted(bytes) : sender_.Open(UcxWindow(bytes));
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
    connection->Break(absl::InvalidArgumentError("a batch is to come in one piece"));
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
  if (!is_whole) Break(absl::InvalidArgumentError("a batch ends within a message"));
}

ucs_status_t UcxConnection::OnMessage(void* argument, const void* header, size_t header_length,
                                      void* data, size_t length, const ucp_am_recv_param_t* param) {
  UcxConnection* const connection = Find(argument, param);
  // The connection was closed at this end. UCX drops the message.
  if (connection == nullptr) return UCS_OK;
  const absl::Span<const uint8_t> header_bytes(static_cast<const uint8_t*>(header), header_length);
  // UCX 1.13 cannot fetch an empty payload, and would never release its message.
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
  // A longer header than counted in the window is not kept. No worker of ours sends one.
  return fetcher_.Take(header, UcxWindow::kOverheadBytes, data, payload_bytes);
}

bool UcxConnection::CountTaken(size_t payload_bytes) {
  if (!is_server()) return true;
  const uint64_t bytes = UcxWindow::Count(payload_bytes);
  if (!window_->Takes(bytes)) {
    Break(absl::ResourceExhaustedError(
        absl::StrCat("more was sent than granted: ", window_->used_bytes(), " and ", bytes, " of ",
                     window_->bytes(), " bytes")));
    return false;
  }
  window_->Use(bytes);
  return true;
}

void UcxConnection::OnError(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
  const auto& connections = static_cast<UcxThread*>(argument)->connections();
  const auto connection = connections.find(endpoint);
  if (connection == connections.end()) return;
  connection->second->Break(UcxStatus(status, "the connection broke"));
}

void UcxConnection::Break(const absl::Status& status) {
  if (std::exchange(is_broken_, true)) return;
  sender_.Stop();
  fetcher_.Stop();
  // Runs later, because the receiver may destroy this connection and open another one.
  thread_->RunLater([thread = thread_, endpoint = endpoint_, status] {
    const auto connection = thread->connections().find(endpoint);
    if (connection != thread->connections().end()) connection->second->receiver_->OnBroken(status);
  });
}

}  // namespace capstan
