#ifndef COMMON_TRANSPORT_EAGER_ENDPOINT_H_
#define COMMON_TRANSPORT_EAGER_ENDPOINT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/routing/slice_key.h"
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Keeps the values that one worker has pulled, and has the server send newer ones as soon as
// min_step advances, until the worker pulls them again: such a pull, of the same step and with no
// push of the slice in between, is answered at once, with the newest that have come. Each pull is
// answered so only once; then the server is asked again. Thread-safe.
class EagerEndpoint : public ParameterEndpoint {
 public:
  // What the connections of one worker share.
  struct Shared {
    Clock* clock = nullptr;                     // Required; outlives the endpoints
    std::atomic<uint64_t> refreshed_bytes = 0;  // payloads that came without being pulled
  };

  // `shared` outlives the endpoint.
  EagerEndpoint(Shared* shared, std::unique_ptr<ParameterEndpoint> inner);
  ~EagerEndpoint() override;

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override;

 private:
  // The newest answer to a pull.
  struct Kept {
    Step pull_step;
    ExchangeReply reply;
  };
  struct Slice {
    uint64_t exchanges = 0;    // that went to the server; not counting refreshes
    std::optional<Kept> kept;  // of the latest of them; none: it is not answered, or has been used
  };

  std::optional<ExchangeReply> TakeKept(const ExchangeRequest& request);
  // The number of an exchange that goes to the server now.
  uint64_t Begin(SliceKey slice);
  // Keeps what was asked at `asked_at` if no exchange went out since `exchange`; false when nobody
  // waits for newer values of it.
  bool Keep(const ExchangeRequest& request, uint64_t exchange, absl::Time asked_at,
            const ExchangeReply& reply);
  // Asks for values newer than those at `min_step`; `request` is the pull, without a push.
  void Refresh(ExchangeRequest request, uint64_t exchange, Step min_step);
  // False when the endpoint is being destroyed.
  bool BeginRefresh();
  void EndRefresh();

  Shared& shared_;

  Mutex mu_;
  CondVar refreshes_sent_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  int64_t active_refreshes_ ABSL_GUARDED_BY(mu_) = 0;  // that are being sent
  std::map<SliceKey, Slice> slices_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<ParameterEndpoint> inner_;  // Its end answers what is open; that comes back here.
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_EAGER_ENDPOINT_H_
