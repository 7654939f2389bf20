#ifndef COMMON_TRANSPORT_UCX_UCX_CONNECTION_H_
#define COMMON_TRANSPORT_UCX_UCX_CONNECTION_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/exchange/payload.h"
#include "common/transport/ucx/ucx_fetcher.h"
#include "common/transport/ucx/ucx_protocol.h"
#include "common/transport/ucx/ucx_sender.h"
#include "common/transport/ucx/ucx_thread.h"
#include "proto/ucx_service.pb.h"

namespace capstan {

// Invites one client: its UcxThread knows it by the secret of the invitation.
class UcxInviter {
 public:
  virtual ~UcxInviter() = default;
  // The client's greeting, of this version of the protocol, has come, and the invitation is used
  // up. `endpoint` answers it. On the thread.
  virtual void OnGreeting(uint32_t version, ucp_ep_h endpoint) = 0;
};

// Messages between two processes: each a header and a payload, which large ones put straight where
// the receiver wants them. UcxSender has what it sends, UcxFetcher the large ones that it receives.
// What a client sends is bounded by the server that accepted it (UcxWindow): a client waits for
// grants, and the connection of one that does not is broken. UCX does not tell when the peer is
// gone: whoever owns the connection learns that elsewhere. For use on its UcxThread alone.
class UcxConnection {
 public:
  // A server fetches another one of a connection while those that it is fetching are fewer bytes.
  // Where it applies them on the UCX thread, what one was received in is then still in the cache
  // when it is applied, and when the next one is received there.
  static constexpr uint64_t kFetchingBytes = 512 << 10;

  class Receiver {
   public:
    virtual ~Receiver() = default;
    // `header` is valid during the call. Null: the payload is not wanted.
    virtual std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                                   size_t payload_bytes) = 0;
    // The connection is of no more use. Runs at most once, not within Send; nothing else of this
    // connection comes after it. The connection may be destroyed in it.
    virtual void OnBroken(const absl::Status& status) = 0;
  };

  // Lets the thread take messages. To be called before its address is given to a client.
  static absl::Status Prepare(UcxThread* thread);

  // The invitation is that of the server. The receiver outlives the connection. UNIMPLEMENTED when
  // UCX has no transport from here to there; UNAVAILABLE when the invitation is malformed.
  static absl::StatusOr<std::unique_ptr<UcxConnection>> Connect(UcxThread* thread,
                                                                const v1::UcxInvitation& invitation,
                                                                Receiver* receiver);
  // For UcxInviter::OnGreeting. ALREADY_EXISTS when the endpoint has a connection.
  static absl::StatusOr<std::unique_ptr<UcxConnection>> Accept(UcxThread* thread, ucp_ep_h endpoint,
                                                               Receiver* receiver,
                                                               uint64_t window_bytes);
  ~UcxConnection();

  // As UcxSender::Send.
  void Send(absl::string_view header, Payload payload, UcxSender::ReleasedCallback delivered) {
    sender_.Send(header, std::move(payload), std::move(delivered));
  }

  // Of a connection that was accepted: a message with a payload of so many bytes is no longer held,
  // and the client may send as much again.
  void Grant(uint64_t payload_bytes);

  // Whether the server has answered the greeting.
  bool is_open() const { return sender_.is_open(); }

  // The peer does not keep to the protocol, or UCX has failed: OnBroken follows.
  void Break(const absl::Status& status);

 private:
  // `window`: of a server.
  UcxConnection(UcxThread* thread, ucp_ep_h endpoint, Receiver* receiver,
                std::optional<UcxWindow> window);

  bool is_server() const { return window_.has_value(); }
  // A message that has come, or of which the payload lies still at its sender: what UCX is to be
  // answered.
  void Take(absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload);
  ucs_status_t TakeLarge(absl::Span<const uint8_t> header, void* data, size_t payload_bytes);
  void TakeBatch(absl::Span<const uint8_t> batch);
  void TakeGrant(uint64_t bytes);
  // False when it is more than the client was granted; then the connection is broken.
  bool CountTaken(size_t payload_bytes);

  // What UCX calls; `argument` is the UcxThread.
  static UcxConnection* Find(void* argument, const ucp_am_recv_param_t* param);
  static void OnError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t OnMessage(void* argument, const void* header, size_t header_length,
                                void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnBatch(void* argument, const void* header, size_t header_length, void* data,
                              size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnGreeting(void* argument, const void* header, size_t header_length,
                                 void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnGrant(void* argument, const void* header, size_t header_length, void* data,
                              size_t length, const ucp_am_recv_param_t* param);

  UcxThread* const thread_;
  const ucp_ep_h endpoint_;
  Receiver* const receiver_;
  bool is_broken_ = false;
  std::optional<UcxWindow> window_;  // of a server: what it has taken and not granted again
  uint64_t to_grant_bytes_ = 0;      // of those, no longer held
  UcxSender sender_;
  UcxFetcher fetcher_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_CONNECTION_H_
