#ifndef TESTS_BENCHMARK_COPY_SLOW_LINK_H_
#define TESTS_BENCHMARK_COPY_SLOW_LINK_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// A link between servers on which requests pass at a rate and after a delay, in their order, and
// not at all while it is cut. Replies pass at once. Thread-safe.
class SlowLink {
 public:
  // `gbit`: 10^9 bits a second; may be infinite. `clock` outlives the link.
  SlowLink(double gbit, absl::Duration delay, Clock* clock)
      : seconds_per_byte_(8e-9 / gbit), delay_(delay), clock_(*clock) {}

  // Until then requests are answered with UNAVAILABLE.
  void CutUntil(absl::Time time);
  // The way to `endpoint` over this link, which outlives it.
  std::unique_ptr<ParameterEndpoint> Around(std::unique_ptr<ParameterEndpoint> endpoint);

 private:
  class Endpoint;

  // When the bytes have passed. None: the link is cut.
  std::optional<absl::Time> Pass(size_t bytes);

  const double seconds_per_byte_;
  const absl::Duration delay_;
  Clock& clock_;
  Mutex mu_;
  absl::Time busy_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Time cut_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COPY_SLOW_LINK_H_
