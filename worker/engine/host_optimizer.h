#ifndef WORKER_ENGINE_HOST_OPTIMIZER_H_
#define WORKER_ENGINE_HOST_OPTIMIZER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/optimizer/optimizer.h"
#include "common/tensor/host_buffer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/client/own_state.h"

namespace capstan {

// The optimizer of a worker's local steps, with its state in host memory. A checkpoint has each
// table's state as it was at the last NotePush. OwnState's methods may be called by any thread, the
// others by one.
class HostOptimizer : public OwnState {
 public:
  // With `goes_on`, a table's steps go on while its exchange is open. INVALID_ARGUMENT: `spec` is
  // not right. RESOURCE_EXHAUSTED: there is not enough memory.
  static absl::StatusOr<std::unique_ptr<HostOptimizer>> Create(
      const v1::OptimizerSpec& spec, absl::Span<const v1::TableSpec> tables, bool goes_on);

  // Takes a step of the table.
  void Step(TableId table, absl::Span<const float> gradient, absl::Span<float> values);
  // The table is pushed now.
  void NotePush(TableId table);

  // As OwnState's. 0: there is no state.
  uint32_t arrays() const override;
  void UseSlices(absl::Span<const Slicing> slicings) override;
  Payload Save(SliceKey key) override;
  void Load(SliceKey key, absl::Span<const float> state) override;

 private:
  struct State {
    std::vector<std::shared_ptr<HostBuffer>> arrays;
    std::atomic<int64_t> steps{0};
  };
  struct Table {
    State now;
    State pushed;  // at the last push; only if steps go on
  };

  HostOptimizer(const v1::OptimizerSpec& spec, std::unique_ptr<Optimizer> optimizer, bool goes_on);
  absl::Status AddTable(uint64_t elements);

  const std::unique_ptr<Optimizer> optimizer_;
  const bool counts_steps_;  // a step depends on its number, so that the state has it, too
  const bool goes_on_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Slicing> slicings_;  // of each table
};

}  // namespace capstan

#endif  // WORKER_ENGINE_HOST_OPTIMIZER_H_
