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

// Sends the messages of one end of a connection, in order, within the window granted by the peer.
// For use on its UcxThread alone.
class UcxSender : private UcxThread::Sender {
 public:
  using ReleasedCallback = absl::AnyInvocable<void()>;

  // The receiver fetches payloads of this size or more from the sender's memory. Smaller ones may
  // wait in UCX and in sockets. UCX itself chooses this size over shared memory, and over TCP
  // within a host.
  static constexpr uint64_t kFetchedBytes = 64 << 10;

  // Small messages of one round are sent together at its end, in a batch of at most this size. The
  // first is sent at once, unless it replies to a batch. A copy into the batch costs less than a
  // message in UCX and in the peer's cache. Over TCP each message is a system call. UCX sends a
  // batch of this size in one piece.
  static constexpr size_t kBatchBytes = 8000;

  // `on_error` runs if UCX cannot send, perhaps within a call of this class.
  UcxSender(UcxThread* thread, ucp_ep_h endpoint, absl::AnyInvocable<void(ucs_status_t)> on_error);
  // Drops waiting messages. UCX still sends the messages that it has.
  ~UcxSender() override;

  // The peer is ready for messages. A server has granted its client the window.
  void Open(std::optional<UcxWindow> window = std::nullopt);
  bool is_open() const { return is_open_; }
  // The server has granted `bytes` again. Requires a window.
  void Granted(uint64_t bytes);

  // `released` runs once the payload's memory may be used again, or never if the connection breaks.
  // A payload of kFetchedBytes or more is released once the receiver has it. A smaller one is
  // released once it has left this process, and may overtake larger ones. The caller may change
  // `header` after the call.
  void Send(absl::string_view header, Payload payload, ReleasedCallback released);
  // Sends a message without a payload, ahead of all waiting messages.
  void SendAtOnce(UcxMessageId id, std::string header);

  // True while a batch of the peer is taken. Meanwhile even the first small message of a round goes
  // into a batch.
  void set_is_taking_batch(bool is_taking_batch) { is_taking_batch_ = is_taking_batch; }

  // Gives the batch to UCX, and completes the released messages.
  void Flush() override;

  // The connection ends. Sends no more messages, and runs no more callbacks.
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
  // True if a message of BatchedBytes `bytes` must go into a batch.
  bool GoesTogether(size_t bytes) const;
  bool BatchHasRoom(size_t bytes) const;
  // Counts a message in the window and in the round.
  void NoteStarted(size_t payload_bytes);
  void AddToBatch(absl::string_view header, const Payload& payload, ReleasedCallback released);
  void Submit(Operation* operation);
  // Runs the callbacks of a released operation.
  void Complete(Operation* operation);
  void Free(Operation* operation);
  static void OnReleased(void* request, ucs_status_t status, void* operation);

  UcxThread* const thread_;
  const ucp_ep_h endpoint_;
  absl::AnyInvocable<void(ucs_status_t)> on_error_;
  bool is_open_ = false;
  bool is_stopped_ = false;
  std::optional<UcxWindow> window_;  // at a client
  std::deque<Message> waiting_;      // for Open, and for grants
  bool is_starting_ = false;         // SendWaiting is running, perhaps further up the stack
  uint64_t round_ = 0;               // UcxThread::round() of the latest message
  bool is_taking_batch_ = false;
  Operation* batch_ = nullptr;       // small messages of this round
  std::string spare_batch_;          // memory for the next batch
  std::deque<Operation*> released_;  // to be completed at the end of the round
  UcxOperations<Operation, UcxSender> operations_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_SENDER_H_
