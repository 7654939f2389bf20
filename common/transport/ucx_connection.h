#ifndef COMMON_TRANSPORT_UCX_CONNECTION_H_
#define COMMON_TRANSPORT_UCX_CONNECTION_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/payload.h"
#include "common/transport/ucx_thread.h"

namespace capstan {

// A message that is arriving: where its payload goes, and what happens then.
class UcxIncoming {
 public:
  virtual ~UcxIncoming() = default;
  // As long as the payload.
  virtual void* buffer() = 0;
  // The payload is in the buffer, or was lost. Runs once, or never when the connection breaks.
  virtual void Done(absl::Status received) = 0;
};

// Messages between two processes: each a header and a payload, which large ones put straight where
// the receiver wants them. For use on its UcxThread alone.
class UcxConnection {
 public:
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // `header` is valid during the call. Null: the payload is not wanted.
    virtual std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                                   size_t payload_bytes) = 0;
    // The peer is gone, or the connection is. Runs at most once, not within Send; nothing else of
    // this connection comes after it. The connection may be destroyed in it.
    virtual void OnBroken(const absl::Status& status) = 0;
  };

  // `address` is host:port. INVALID_ARGUMENT: it is no address; UNAVAILABLE: it does not resolve.
  // That nobody listens there comes as OnBroken. The receiver outlives the connection.
  static absl::StatusOr<std::unique_ptr<UcxConnection>> Connect(UcxThread* thread,
                                                                const std::string& address,
                                                                Receiver* receiver);
  static absl::StatusOr<std::unique_ptr<UcxConnection>> Accept(UcxThread* thread,
                                                               ucp_conn_request_h request,
                                                               Receiver* receiver);
  ~UcxConnection();

  // `sent` runs once the payload is no longer needed, or never when the connection breaks.
  void Send(std::string header, Payload payload, absl::AnyInvocable<void()> sent);

 private:
  UcxConnection(UcxThread* thread, Receiver* receiver) : thread_(thread), receiver_(receiver) {}

  struct Operation;
  using Operations = std::vector<std::unique_ptr<Operation>>;

  absl::Status Create(ucp_ep_params_t* params);
  // Sends a message of its own, without header and payload, to the peer of `endpoint`.
  static void Signal(ucp_ep_h endpoint, unsigned id);
  void Submit(Operation* operation);
  Operation* TakeOperation();
  ucs_status_t Take(absl::Span<const uint8_t> header, void* data, size_t length,
                    bool is_rendezvous);
  void Break(ucs_status_t status);

  // What UCX calls; `argument` is the UcxThread, or the operation.
  static void OnError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t OnMessage(void* argument, const void* header, size_t header_length,
                                void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnGoodbye(void* argument, const void* header, size_t header_length,
                                void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnGreeting(void* argument, const void* header, size_t header_length,
                                 void* data, size_t length, const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* operation);
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* operation);

  UcxThread* const thread_;
  Receiver* const receiver_;
  ucp_ep_h endpoint_ = nullptr;
  bool is_client_ = false;
  bool is_greeted_ = false;  // by the peer; until then nothing but a greeting is sent
  bool is_broken_ = false;
  std::vector<Operation*> waiting_;         // until the peer has greeted
  std::shared_ptr<Operations> operations_;  // all that were ever open at once
  std::vector<Operation*> free_operations_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_CONNECTION_H_
