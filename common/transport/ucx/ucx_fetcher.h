#ifndef COMMON_TRANSPORT_UCX_UCX_FETCHER_H_
#define COMMON_TRANSPORT_UCX_UCX_FETCHER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/transport/ucx/ucx_operations.h"
#include "common/transport/ucx/ucx_thread.h"

namespace capstan {

// An arriving message: the buffer for its payload, and the work afterwards.
class UcxIncoming {
 public:
  virtual ~UcxIncoming() = default;
  // Has the size of the payload.
  virtual void* buffer() = 0;
  // The payload is in the buffer, or was lost. Runs once, or never if the connection breaks.
  virtual void Done(absl::Status received) = 0;
};

// Fetches large payloads from the sender's memory, for one end of a connection, in the order of
// their messages. For use on its UcxThread alone.
class UcxFetcher {
 public:
  // Called when it is the message's turn. Returns null to drop the payload.
  using Begin = absl::AnyInvocable<std::unique_ptr<UcxIncoming>(absl::Span<const uint8_t> header,
                                                                size_t payload_bytes)>;

  // Starts another fetch while it is fetching fewer bytes than `most_bytes`.
  UcxFetcher(UcxThread* thread, uint64_t most_bytes, Begin begin);
  ~UcxFetcher();

  // Takes a message with UCX's handle `data`. Returns the result of UCX's callback. Keeps no header
  // longer than `most_header_bytes`: such a message does not wait for its turn.
  ucs_status_t Take(absl::Span<const uint8_t> header, size_t most_header_bytes, void* data,
                    size_t payload_bytes);

  // The connection broke. Starts no more fetches, and runs no more callbacks.
  void Stop() { is_stopped_ = true; }

 private:
  struct Operation;
  struct Waiting {
    std::string header;
    void* data;  // UCX's handle
    size_t payload_bytes;
  };

  bool MayFetch() const { return fetching_bytes_ < most_bytes_; }
  // False: the payload is to be dropped.
  bool Fetch(absl::Span<const uint8_t> header, void* data, size_t payload_bytes);
  void FetchWaiting();
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* operation);

  UcxThread* const thread_;
  const uint64_t most_bytes_;
  Begin begin_;
  bool is_stopped_ = false;
  uint64_t fetching_bytes_ = 0;
  std::deque<Waiting> waiting_;
  bool is_fetching_waiting_ = false;  // FetchWaiting is running, perhaps further up the stack
  UcxOperations<Operation, UcxFetcher> operations_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_FETCHER_H_
