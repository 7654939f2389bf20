#ifndef COMMON_TRANSPORT_UCX_UCX_SENDER_H_
#define COMMON_TRANSPORT_UCX_UCX_SENDER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "common/exchange/payload.h"
#include "common/transport/ucx/ucx_operations.h"
#include "common/transport/ucx/ucx_protocol.h"
#include "common/transport/ucx/ucx_thread.h"

namespace capstan {

// What one end of a connection sends: its messages, in order, within the window that the peer
// grants. For use on its UcxThread alone.
class UcxSender : private UcxThread::Sender {
 public:
  using ReleasedCallback = absl::AnyInvocable<void()>;

  // Payloads as large as this lie still until their receiver fetches them; smaller ones may wait in
  // UCX and in sockets. UCX chooses so by itself over shared memory, and over TCP within a host.
  static constexpr uint64_t kFetchedBytes = 64 << 10;

  // Small messages, but for the first one of a round of the thread, and that one, too, if it
  // answers messages that came together, wait for the round's end and go together, as far as UCX
  // sends them in one piece: what each message costs there and in the other core's cache is more
  // than to copy it. Over TCP each is a system call.
  static constexpr size_t kBatchBytes = 8000;

  // `on_error` runs when UCX cannot send, perhaps within a call.
  UcxSender(UcxThread* thread, ucp_ep_h endpoint, absl::AnyInvocable<void(ucs_status_t)> on_error);
  // Lets go of what waits; what UCX has is sent.
  ~UcxSender() override;

  // The peer takes messages from now on; a server grants its client a window.
  void Open(std::optional<UcxWindow> window = std::nullopt);
  bool is_open() const { return is_open_; }
  // Once open with a window.
  void Granted(uint64_t bytes);

  // `header` is needed during the call. `released` runs once the payload is no longer needed, or
  // never when the connection breaks. One of kFetchedBytes or more is needed until the receiver has
  // fetched it. Smaller ones may overtake it.
  void Send(absl::string_view header, Payload payload, ReleasedCallback released);
  // A message without a payload, at once, ahead of all that waits.
  void SendAtOnce(UcxMessageId id, std::string header);

  // While the peer's small messages, which came together, are taken: what answers them goes
  // together, too, the first one with the others.
  void set_is_taking_batch(bool is_taking_batch) { is_taking_batch_ = is_taking_batch; }

  // Hands over to UCX what waits for the end of the round.
  void Flush() override;

  // The connection ends: nothing is sent, and nothing told, any more.
  void Stop() { is_stopped_ = true; }

 private:
  struct Operation;
  struct Message {
    std::string header;
    Payload payload;
    ReleasedCallback released;
  };

  bool MayGo(size_t payload_bytes) const;
  void SendWaiting();
  void Start(Message message);
  // Of a message that takes so much of a batch.
  bool GoesTogether(size_t bytes) const;
  bool BatchHasRoom(size_t bytes) const;
  // A message with such a payload is on its way.
  void NoteSent(size_t payload_bytes);
  void AddToBatch(absl::string_view header, const Payload& payload, ReleasedCallback released);
  void Submit(Operation* operation);
  // A message that has been sent: tells so.
  void Complete(Operation* operation);
  void Free(Operation* operation);
  static void OnSent(void* request, ucs_status_t status, void* operation);

  UcxThread* const thread_;
  const ucp_ep_h endpoint_;
  absl::AnyInvocable<void(ucs_status_t)> on_error_;
  bool is_open_ = false;
  bool is_stopped_ = false;
  std::optional<UcxWindow> window_;  // of a client
  std::deque<Message> waiting_;      // for the peer, and for grants
  bool is_starting_ = false;         // a message is on its way to UCX, perhaps up the stack
  uint64_t round_ = 0;               // of the thread, in which a message was sent
  bool is_taking_batch_ = false;
  Operation* batch_ = nullptr;   // small messages that go together
  std::string spare_batch_;      // memory of one, to be used again
  std::deque<Operation*> sent_;  // to be completed at the end of the round
  UcxOperations<Operation, UcxSender> operations_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_SENDER_H_
