#ifndef TESTS_TRANSPORT_FAULTY_ENDPOINT_H_
#define TESTS_TRANSPORT_FAULTY_ENDPOINT_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// Injects the faults of a bad network, drawn from a seed. A dropped exchange is answered
// UNAVAILABLE, like one on a broken connection. Either the request or the reply is lost, with equal
// probability. A duplicate arrives some time after its original. Delays reorder exchanges.
// Thread-safe.
class FaultyEndpoint : public ParameterEndpoint {
 public:
  struct Options {
    Clock* clock = nullptr;  // Required; outlives the endpoint
    uint64_t seed = 0;
    double drop = 0;  // probabilities of an exchange
    double duplicate = 0;
    double delay = 0;
    absl::Duration max_delay = absl::Milliseconds(20);
  };
  struct Counts {
    int64_t dropped_requests = 0;
    int64_t dropped_replies = 0;
    int64_t duplicated = 0;
    int64_t delayed = 0;
  };

  FaultyEndpoint(Options options, std::unique_ptr<ParameterEndpoint> inner);
  ~FaultyEndpoint() override;

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

  Counts counts() const;

 private:
  struct Fate {
    bool request_lost = false;
    bool reply_lost = false;
    bool duplicated = false;
    absl::Duration delay;
    absl::Duration duplicate_delay;
  };

  Fate DrawFate();
  void Deliver(ExchangeRequest request, const Fate& fate, DeliveredCallback delivered,
               ReplyCallback done);

  const Options options_;

  mutable Mutex mu_;
  Random random_ ABSL_GUARDED_BY(mu_);
  Counts counts_ ABSL_GUARDED_BY(mu_);

  DelayedCalls later_;  // uses inner_ until it is stopped
  std::unique_ptr<ParameterEndpoint> inner_;
};

}  // namespace capstan

#endif  // TESTS_TRANSPORT_FAULTY_ENDPOINT_H_
