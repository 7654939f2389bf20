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

// A message that is arriving: where its payload goes, and what happens then.
class UcxIncoming {
 public:
  virtual ~UcxIncoming() = default;
  // As long as the payload.
  virtual void* buffer() = 0;
  // The payload is in the buffer, or was lost. Runs once, or never when the connection breaks.
  virtual void Done(absl::Status received) = 0;
};

// The large messages that one end of a connection receives, of which the payloads lie still at
// their sender until they are fetched, in the order in which they came. For use on its UcxThread
// alone.
class UcxFetcher {
 public:
  // Where a message's payload goes, once it is its turn; null: it is not wanted.
  using Begin = absl::AnyInvocable<std::unique_ptr<UcxIncoming>(absl::Span<const uint8_t> header,
                                                                size_t payload_bytes)>;

  // Another one is fetched while those that are being fetched are fewer bytes than `most_bytes`.
  UcxFetcher(UcxThread* thread, uint64_t most_bytes, Begin begin);
  ~UcxFetcher();

  // A message that UCX calls `data`: what its callback is to answer. Headers of more than
  // `most_header_bytes` are not kept: such a message does not wait for those before it.
  ucs_status_t Take(absl::Span<const uint8_t> header, size_t most_header_bytes, void* data,
                    size_t payload_bytes);

  // The connection broke: nothing is fetched, and nothing told, any more.
  void Stop() { is_stopped_ = true; }

 private:
  struct Operation;
  struct Waiting {
    std::string header;
    void* data;  // what UCX calls it by
    size_t payload_bytes;
  };

  bool MayFetch() const { return fetching_bytes_ < most_bytes_; }
  // False when it is not wanted.
  bool Fetch(absl::Span<const uint8_t> header, void* data, size_t payload_bytes);
  void FetchWaiting();
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* operation);

  UcxThread* const thread_;
  const uint64_t most_bytes_;
  Begin begin_;
  bool is_stopped_ = false;
  uint64_t fetching_bytes_ = 0;
  std::deque<Waiting> waiting_;
  bool is_fetching_waiting_ = false;  // perhaps further up the stack
  UcxOperations<Operation, UcxFetcher> operations_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_FETCHER_H_
