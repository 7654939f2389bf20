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

// Waits for the greeting of one invited client. The UcxThread finds it by the invitation's secret.
class UcxInviter {
 public:
  virtual ~UcxInviter() = default;
  // The client has greeted with this version of the protocol, through `endpoint`. Its invitation
  // cannot be used again. Runs on the thread.
  virtual void OnGreeting(uint32_t version, ucp_ep_h endpoint) = 0;
};

// Messages between two processes, each a header and a payload. UcxSender sends them. UcxFetcher
// receives large payloads straight into the receiver's buffers. The server grants its client a
// UcxWindow, and breaks the connection of a client beyond the window. UCX does not report the end
// of the peer: the owner learns it elsewhere. For use on its UcxThread alone.
class UcxConnection {
 public:
  // A server starts another fetch while it is fetching fewer bytes than this on the connection. So
  // buffers stay in the cache, if gradients are applied on the UCX thread: from the fetch to the
  // update, and on to the next fetch into the same buffer.
  static constexpr uint64_t kFetchingBytes = 512 << 10;

  class Receiver {
   public:
    virtual ~Receiver() = default;
    // `header` is valid during the call. Returns null to drop the payload.
    virtual std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                                   size_t payload_bytes) = 0;
    // The connection is unusable. Runs at most once, as the last callback, and never within Send.
    // May destroy the connection.
    virtual void OnBroken(const absl::Status& status) = 0;
  };

  // Installs the handlers of messages. Must run before any client gets the thread's address.
  static absl::Status Prepare(UcxThread* thread);

  // Connects to the server of `invitation`. `receiver` outlives the connection. UNIMPLEMENTED: no
  // transport of UCX connects the two ends. UNAVAILABLE: the invitation is malformed.
  static absl::StatusOr<std::unique_ptr<UcxConnection>> Connect(UcxThread* thread,
                                                                const v1::UcxInvitation& invitation,
                                                                Receiver* receiver);
  // Accepts the client of UcxInviter::OnGreeting. `receiver` outlives the connection.
  // ALREADY_EXISTS: the endpoint has a connection.
  static absl::StatusOr<std::unique_ptr<UcxConnection>> Accept(UcxThread* thread, ucp_ep_h endpoint,
                                                               Receiver* receiver,
                                                               uint64_t window_bytes);
  ~UcxConnection();

  // See UcxSender::Send.
  void Send(absl::string_view header, Payload payload, UcxSender::ReleasedCallback released) {
    sender_.Send(header, std::move(payload), std::move(released));
  }

  // The server holds a message with a payload of this size no longer: the client may send as much
  // again. For accepted connections only.
  void Grant(uint64_t payload_bytes);

  // True once the server has answered the greeting.
  bool is_open() const { return sender_.is_open(); }

  // The peer has broken the protocol, or UCX has failed. OnBroken follows.
  void Break(const absl::Status& status);

 private:
  // `window`: for a server only.
  UcxConnection(UcxThread* thread, ucp_ep_h endpoint, Receiver* receiver,
                std::optional<UcxWindow> window);

  bool is_server() const { return window_.has_value(); }
  void Take(absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload);
  // For a payload still at its sender. Returns the result of UCX's callback.
  ucs_status_t TakeLarge(absl::Span<const uint8_t> header, void* data, size_t payload_bytes);
  void TakeBatch(absl::Span<const uint8_t> batch);
  void TakeGrant(uint64_t bytes);
  // False: the message exceeds the client's window, and the connection is now broken.
  bool CountTaken(size_t payload_bytes);

  // UCX's callbacks. `argument` is the UcxThread.
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
  std::optional<UcxWindow> window_;  // at a server: bytes taken and not granted again
  uint64_t to_grant_bytes_ = 0;      // part of them: no longer held
  UcxSender sender_;
  UcxFetcher fetcher_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_CONNECTION_H_
