#ifndef WORKER_ENGINE_HOST_OPTIMIZER_H_
#define WORKER_ENGINE_HOST_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/optimizer/optimizer.h"
#include "common/tensor/host_buffer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/engine/local_optimizer_state.h"

namespace capstan {

// The optimizer of a worker's local steps on the calling thread.
class HostOptimizer {
 public:
  // With `goes_on`, a table's steps go on while its exchange is open. INVALID_ARGUMENT: `spec` is
  // not right. RESOURCE_EXHAUSTED: there is not enough memory.
  static absl::StatusOr<std::unique_ptr<HostOptimizer>> Create(
      const v1::OptimizerSpec& spec, absl::Span<const v1::TableSpec> tables, bool goes_on);

  // Takes a step of the table.
  void Step(TableId table, absl::Span<const float> gradient, absl::Span<float> values);
  // The table is pushed now.
  void NotePush(TableId table);

  LocalOptimizerState& state() { return *state_; }

 private:
  // The state of a table whose steps go on.
  struct Present {
    std::vector<HostBuffer> arrays;
    int64_t steps = 0;
    bool has_begun = false;  // else it is still that of state_
  };

  HostOptimizer(std::unique_ptr<Optimizer> optimizer, std::unique_ptr<LocalOptimizerState> state)
      : optimizer_(std::move(optimizer)), state_(std::move(state)) {}

  const std::unique_ptr<Optimizer> optimizer_;
  const std::unique_ptr<LocalOptimizerState> state_;
  std::vector<Present> present_;  // of each table; empty unless steps go on
};

}  // namespace capstan

#endif  // WORKER_ENGINE_HOST_OPTIMIZER_H_
