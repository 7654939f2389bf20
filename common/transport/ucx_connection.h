#ifndef COMMON_TRANSPORT_UCX_CONNECTION_H_
#define COMMON_TRANSPORT_UCX_CONNECTION_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
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
// the receiver wants them. What a client sends is bounded by the server that accepted it: at most
// `window_bytes` that it has not granted again, or a quarter of that and one message; a client
// waits for grants, and the connection of one that does not is broken. For use on its UcxThread
// alone.
class UcxConnection : private UcxThread::Sender {
 public:
  // Payloads as large as this lie still until their receiver fetches them; smaller ones may wait in
  // UCX and in sockets. UCX chooses so by itself over shared memory, and over TCP within a host.
  static constexpr uint64_t kFetchedBytes = 64 << 10;

  // A server fetches another one of a connection while those that it is fetching are fewer bytes.
  // Where it applies them on the UCX thread, what one was received in is then still in the cache
  // when it is applied, and when the next one is received there.
  static constexpr uint64_t kFetchingBytes = 512 << 10;

  // Small messages, but for the first one of a round of the thread, wait for the round's end and go
  // together, as far as UCX sends them in one piece: what each message costs there and in the other
  // core's cache is more than to copy it. Over TCP each is a system call.
  static constexpr size_t kBatchBytes = 8000;

  // What a message counts beside its payload.
  static constexpr uint64_t kOverheadBytes = 256;

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
                                                               Receiver* receiver,
                                                               uint64_t window_bytes);
  ~UcxConnection() override;

  // `sent` runs once the payload is no longer needed, or never when the connection breaks. One of
  // kFetchedBytes or more is needed until the receiver has fetched it: sent is received. Smaller
  // ones may overtake it.
  void Send(std::string header, Payload payload, absl::AnyInvocable<void()> sent);

  // Of a connection that was accepted: a message with a payload of so many bytes is no longer held,
  // and the client may send as much again.
  void Grant(uint64_t payload_bytes);

 private:
  UcxConnection(UcxThread* thread, Receiver* receiver) : thread_(thread), receiver_(receiver) {}

  // A large message that lies still at its sender.
  struct ToFetch {
    std::string header;
    void* data;  // what UCX calls it by
    size_t payload_bytes;
  };
  struct Operation;
  using Operations = std::vector<std::unique_ptr<Operation>>;

  absl::Status Create(ucp_ep_params_t* params);
  // Sends a message of its own, without header and payload, to the peer of `endpoint`.
  static void Signal(ucp_ep_h endpoint, unsigned id);
  void Submit(Operation* operation);
  // Lets a small message wait in the batch; false when it is to go alone.
  bool AddToBatch(Operation* operation);
  void Flush() override;
  // A message that has been sent: tells so.
  void Complete(Operation* operation);
  // Submits what waited for the peer's greeting and for grants.
  void SubmitWaiting();
  // Whether a message that counts `bytes` is within the window, besides what is not granted again.
  bool IsWithinWindow(uint64_t bytes) const;
  void SendGrant(uint64_t bytes);
  Operation* TakeOperation();
  // At the end: lets go of all operations but those that UCX may still point to.
  void KeepWhatUcxHas();
  // A message that has come, or of which the payload lies still at its sender: what UCX is to be
  // answered.
  void Take(absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload);
  ucs_status_t TakeLarge(absl::Span<const uint8_t> header, void* data, size_t payload_bytes);
  // False when it is more than the client was granted; then the connection is broken.
  bool CountTaken(size_t payload_bytes);
  // Fetches a message's payload; false when it is not wanted.
  bool Fetch(absl::Span<const uint8_t> header, void* data, size_t payload_bytes);
  bool MayFetch() const { return is_client_ || fetching_bytes_ < kFetchingBytes; }
  void FetchWaiting();
  void Break(ucs_status_t status);

  // What UCX calls; `argument` is the UcxThread, or the operation.
  static void OnError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t OnMessage(void* argument, const void* header, size_t header_length,
                                void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnBatch(void* argument, const void* header, size_t header_length, void* data,
                              size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnGoodbye(void* argument, const void* header, size_t header_length,
                                void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnGreeting(void* argument, const void* header, size_t header_length,
                                 void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnGrant(void* argument, const void* header, size_t header_length, void* data,
                              size_t length, const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* operation);
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* operation);

  UcxThread* const thread_;
  Receiver* const receiver_;
  ucp_ep_h endpoint_ = nullptr;
  bool is_client_ = false;
  bool is_greeted_ = false;  // by the peer; until then nothing but a greeting is sent
  bool is_broken_ = false;
  uint64_t window_bytes_ = 0;               // 0 at a client that has not been told yet
  uint64_t ungranted_bytes_ = 0;            // on their way, or held by the server
  uint64_t to_grant_bytes_ = 0;             // of those, no longer held; at a server
  std::deque<Operation*> waiting_;          // for the peer's greeting, and for grants
  bool is_submitting_ = false;              // SubmitWaiting runs, perhaps further up the stack
  std::deque<Operation*> sent_;             // to be completed at the end of the round
  std::string spare_batch_;                 // memory of one, to be used again
  uint64_t round_ = 0;                      // of the thread, in which a message was sent
  Operation* batch_ = nullptr;              // small messages that go together
  uint64_t fetching_bytes_ = 0;             // of payloads
  std::deque<ToFetch> to_fetch_;            // in the order in which they came
  bool is_fetch_loop_ = false;              // FetchWaiting runs, perhaps further up the stack
  std::shared_ptr<Operations> operations_;  // all that were ever open at once
  std::vector<Operation*> free_operations_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_CONNECTION_H_
