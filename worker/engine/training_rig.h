#ifndef WORKER_ENGINE_TRAINING_RIG_H_
#define WORKER_ENGINE_TRAINING_RIG_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/real_clock.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/scheduler/scheduler.h"
#include "worker/client/parameter_client.h"
#include "worker/client/parameter_store.h"
#include "worker/dataset/dataset.h"
#include "worker/engine/engine.h"

namespace capstan {

// Samples with normal features and random labels.
Dataset RandomDataset(int samples, int features, int classes, uint64_t seed);

// The surroundings of an engine, for tests: a store, and a server in this process. The server
// applies each push by plain SGD, and replies from its own thread. Used by one thread.
class TrainingRig {
 public:
  struct Options {
    uint64_t slice_bytes = 1024;
    float learning_rate = 0.1f;
    uint64_t seed = 1;               // of the first values, and of draws
    TableCodecs codecs;              // of all tables
    bool has_program_state = false;  // as in ParameterStore::Options
    // From this step on, auto codecs are used.
    capstan::Step auto_codecs_from{std::numeric_limits<int64_t>::max()};
  };

  // `engine` outlives the rig; `clock` outlives both.
  static absl::StatusOr<std::unique_ptr<TrainingRig>> Create(Engine* engine, Clock* clock,
                                                             const Options& options);
  ~TrainingRig();

  // Trains a step on these samples of `dataset`. Returns the mean loss before the step.
  absl::StatusOr<double> Step(const Dataset& dataset, const std::vector<uint32_t>& samples);
  // Waits for all replies, and ends the engine's use of the store.
  absl::Status Finish();

  ParameterStore& store() { return *store_; }
  // Number of exchanges with the server.
  int64_t exchanges() const { return exchanges_; }
  // The worker's parameters, table after table.
  std::vector<float> Values() const;

 private:
  TrainingRig(Engine* engine, Clock* clock, const Options& options);
  absl::Status Start();
  std::vector<TableId> AllTables() const;

  Engine* const engine_;
  Clock* const clock_;
  const Options options_;
  Scheduler scheduler_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<ParameterClient> client_;
  int64_t steps_ = 0;
  std::atomic<int64_t> exchanges_ = 0;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_TRAINING_RIG_H_
