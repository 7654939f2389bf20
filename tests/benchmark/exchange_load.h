#ifndef TESTS_BENCHMARK_EXCHANGE_LOAD_H_
#define TESTS_BENCHMARK_EXCHANGE_LOAD_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/benchmark/benchmark_job.h"
#include "worker/client/parameter_client.h"

namespace capstan {

// A job of one table, each part of which is exchanged by every worker as fast as it goes: a push of
// a step and a pull of the next one, under async. One part for each exchange that is in flight; one
// of several slices is sent as a job sends a tensor.
struct ExchangeLoad {
  uint64_t bytes = 4 << 20;         // of an exchange; a multiple of slice_bytes, or less
  uint64_t slice_bytes = 1 << 20;   // largest of a slice
  uint64_t credit_bytes = 4 << 20;  // of slices on their way to servers, where exchanges are cut
  int inflight = 4;                 // of each worker
  int num_workers = 1;
  int num_servers = 1;
  std::string optimizer = "sgd";

  BenchmarkJob Job() const;
  // Of an exchange.
  uint32_t slices() const {
    return static_cast<uint32_t>(std::max<uint64_t>(bytes / slice_bytes, 1));
  }
};

// What one worker has done between two times.
struct ExchangeCount {
  uint64_t exchanges = 0;
  uint64_t bytes = 0;          // pushed and pulled
  std::vector<float> seconds;  // of each exchange; of the first million
};

// Exchanges as `worker` from now to `end`, and counts what ends between `begin` and `end`.
// DATA_LOSS when what the last exchange of a slice has pulled is not what its updates make of it.
absl::StatusOr<ExchangeCount> RunExchanges(const ExchangeLoad& load, int worker,
                                           ParameterClient* client, absl::Time begin,
                                           absl::Time end, Clock* clock);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_EXCHANGE_LOAD_H_
