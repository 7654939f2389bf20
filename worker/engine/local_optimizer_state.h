#ifndef WORKER_ENGINE_LOCAL_OPTIMIZER_STATE_H_
#define WORKER_ENGINE_LOCAL_OPTIMIZER_STATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/tensor/host_buffer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/client/own_state.h"

namespace capstan {

// The state of the optimizer of a worker's local steps in host memory, as a checkpoint has it: of
// each table as it was at its last push, or as it was loaded. Where no step is taken before the
// answer to a push, it may be the state that steps change. OwnState's methods may be called by
// any thread, the others by one.
class LocalOptimizerState : public OwnState {
 public:
  struct Table {
    std::vector<std::shared_ptr<HostBuffer>> arrays;
    std::atomic<int64_t> steps{0};
  };
  // Makes an array of `size` zeros.
  using Allocate = absl::FunctionRef<absl::StatusOr<HostBuffer>(size_t size)>;

  // INVALID_ARGUMENT: `spec` is not right. Or an error of `allocate`.
  static absl::StatusOr<std::unique_ptr<LocalOptimizerState>> Create(
      const v1::OptimizerSpec& spec, absl::Span<const v1::TableSpec> tables, Allocate allocate);

  // The arrays of a table, without the one of steps.
  int state_count() const { return state_count_; }
  Table& table(TableId table) { return *tables_[table.value()]; }

  // As OwnState's. 0: there is no state.
  uint32_t arrays() const override;
  void UseSlices(absl::Span<const Slicing> slicings) override;
  Payload Save(SliceKey key) override;
  void Load(SliceKey key, absl::Span<const float> state) override;

 private:
  explicit LocalOptimizerState(const v1::OptimizerSpec& spec);

  const int state_count_;
  const bool counts_steps_;  // a step depends on its number, so that the state has it, too
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Slicing> slicings_;  // of each table
};

}  // namespace capstan

#endif  // WORKER_ENGINE_LOCAL_OPTIMIZER_STATE_H_
