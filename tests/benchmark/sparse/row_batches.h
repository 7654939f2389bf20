#ifndef TESTS_BENCHMARK_SPARSE_ROW_BATCHES_H_
#define TESTS_BENCHMARK_SPARSE_ROW_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/scheduler/scheduler.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "worker/client/parameter_client.h"
#include "worker/client/row_store.h"
#include "worker/client/worker_exchanges.h"

namespace capstan {

// A sparse table under Adagrad, and batches of its rows.
struct RowBatchesLoad {
  uint64_t num_keys = 10'000'000;
  uint64_t batch = 10'000;  // keys, uniform
  uint32_t dim = 16;        // values of a row
  uint32_t shards = 64;

  BenchmarkJob Job() const;
};

// A worker that exchanges batches with a host in this process, without a transport: it pushes one
// and pulls the next. Keeps their times, by the phase in which they were: a number that the caller
// chooses. Thread-safe but for Make and Run.
class RowBatches {
 public:
  // All arguments outlive this.
  RowBatches(const RowBatchesLoad& load, const BenchmarkJob& job, ShardHost* host, Clock* clock);

  // Makes all rows.
  absl::Status Make();
  // Exchanges batches until Stop.
  absl::Status Run();
  void Stop();

  void set_phase(int phase);
  // Waits for so many more batches of the phase, or until Run has ended.
  void Await(int phase, size_t count);
  // Milliseconds, ascending. A batch within which the phase has changed is of the larger one.
  std::vector<double> Times(int phase);

 private:
  absl::Status ExchangeAll();
  int phase();
  // Pushes these rows and pulls others. Waits for them.
  absl::Status Exchange(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> next);

  const RowBatchesLoad& load_;
  Clock& clock_;
  const BenchmarkJob::Connect connect_;
  const std::unique_ptr<ParameterClient> client_;
  Scheduler scheduler_;
  WorkerExchanges exchanges_;
  std::unique_ptr<RowStore> rows_;
  std::vector<float> gradients_, values_;
  Step step_;

  Mutex mu_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  int phase_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int, std::vector<double>> times_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_SPARSE_ROW_BATCHES_H_
