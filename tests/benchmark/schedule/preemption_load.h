#ifndef TESTS_BENCHMARK_SCHEDULE_PREEMPTION_LOAD_H_
#define TESTS_BENCHMARK_SCHEDULE_PREEMPTION_LOAD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/scheduler/scheduler.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "worker/client/parameter_client.h"

namespace capstan {

// A worker with many slices of layer 1 to push at all times, and now and then one of layer 0.
struct PreemptionLoad {
  uint64_t slice_bytes = 1 << 20;
  int queued_slices = 32;  // of layer 1, on their way and waiting
  int tries = 100;         // of a slice of layer 0
  uint64_t seed = 1;       // of the pauses between them

  BenchmarkJob Job() const;
};

struct PreemptionTimes {
  absl::Duration alone;                // median round trip of a slice on the idle link
  std::vector<absl::Duration> waited;  // of each slice of layer 0: its round trip less `alone`
};

// Returns the first error of an exchange. `scheduler` must live until `client` has ended, because
// `client` waits for its exchanges.
absl::StatusOr<PreemptionTimes> MeasurePreemption(const PreemptionLoad& load,
                                                  ParameterClient* client, Scheduler* scheduler,
                                                  Clock* clock);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_SCHEDULE_PREEMPTION_LOAD_H_
