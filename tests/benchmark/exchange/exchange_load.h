#ifndef TESTS_BENCHMARK_EXCHANGE_EXCHANGE_LOAD_H_
#define TESTS_BENCHMARK_EXCHANGE_EXCHANGE_LOAD_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "worker/client/parameter_client.h"

namespace capstan {

// A job of one table under async. Its table has a part for each exchange in flight. Every worker
// exchanges each part as fast as it can: it pushes a step and pulls the next one. A part of several
// slices is sent as a job sends a tensor.
struct ExchangeLoad {
  uint64_t bytes = 4 << 20;         // of an exchange; a multiple of slice_bytes, or less
  uint64_t slice_bytes = 1 << 20;   // largest of a slice
  uint64_t credit_bytes = 4 << 20;  // most on their way, of exchanges with several slices
  int inflight = 4;                 // of each worker
  int num_workers = 1;
  int num_servers = 1;
  std::string optimizer = "sgd";

  BenchmarkJob Job() const;
  // The slices of an exchange.
  uint32_t slices() const {
    return static_cast<uint32_t>(std::max<uint64_t>(bytes / slice_bytes, 1));
  }
};

// The exchanges of one worker between two times.
struct ExchangeCount {
  uint64_t exchanges = 0;
  uint64_t bytes = 0;          // pushed and pulled
  std::vector<float> seconds;  // of each exchange, up to the first million
};

// Exchanges as `worker` from now to `end`. Counts the exchanges with an end between `begin` and
// `end`. DATA_LOSS: the last values of a slice are not the result of its updates.
absl::StatusOr<ExchangeCount> RunExchanges(const ExchangeLoad& load, int worker,
                                           ParameterClient* client, absl::Time begin,
                                           absl::Time end, Clock* clock);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_EXCHANGE_EXCHANGE_LOAD_H_
