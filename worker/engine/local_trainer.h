#ifndef WORKER_ENGINE_LOCAL_TRAINER_H_
#define WORKER_ENGINE_LOCAL_TRAINER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/own_state.h"
#include "worker/dataset/dataset.h"
#include "worker/engine/engine.h"
#include "worker/models/training/model.h"

namespace capstan {

// A device's part of local steps: the model, the worker's own values of its parameters, and the
// optimizer that changes them. Used by one thread, but for own_state().
class LocalTrainer {
 public:
  using Values = absl::Span<const absl::Span<const float>>;

  virtual ~LocalTrainer() = default;

  // As Engine's.
  virtual const std::string& device_name() const = 0;
  // The model's.
  virtual const std::vector<v1::TableSpec>& tables() const = 0;
  // As Engine's.
  virtual std::optional<Engine::CopiedBytes> copied_bytes() const { return std::nullopt; }
  // The optimizer's state, of each table as it was at its last Push; null: it has none.
  virtual OwnState* own_state() = 0;

  // Loads the batch of the next Step or Forward, as Engine::LoadBatch.
  virtual absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) = 0;

  // Takes a step with its own values, which all tables have taken. Returns the result before it.
  virtual absl::StatusOr<BatchResult> Step() = 0;
  // Forward only, with these values of all tables.
  virtual absl::StatusOr<BatchResult> Forward(Values values) = 0;

  // Puts `values`, which are the servers', less its own into `difference`.
  virtual absl::Status Push(TableId table, absl::Span<const float> values,
                            absl::Span<float> difference) = 0;
  // Its own values become these. If it keeps what is done meanwhile, the steps since the table's
  // last Push are added.
  virtual absl::Status Take(TableId table, absl::Span<const float> values) = 0;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_LOCAL_TRAINER_H_
