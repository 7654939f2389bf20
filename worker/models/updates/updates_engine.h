#ifndef WORKER_MODELS_UPDATES_UPDATES_ENGINE_H_
#define WORKER_MODELS_UPDATES_UPDATES_ENGINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/engine/engine.h"
#include "worker/runtime/job_setup.h"

namespace capstan {

// Pushes test values (common/job/test_values.h) for `capstan check`: each push of a table moves
// the element of this worker and step. A step takes its time on the clock. Used by one thread.
class UpdatesEngine : public Engine {
 public:
  struct Options {
    uint32_t tables = 1;
    uint32_t num_workers = 1;
    int64_t steps = 1;  // of each worker
    absl::Duration compute_time;
    Clock* clock = nullptr;  // Required; outlives the engine
  };

  explicit UpdatesEngine(const Options& options);

  // Comes before the first step.
  void SetWorker(WorkerId worker) { worker_ = worker; }

  const std::string& device_name() const override { return device_name_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }
  bool is_replaceable() const override { return true; }
  ParameterMirror* mirror() override { return nullptr; }
  absl::Status LoadBatch(const Dataset&, absl::Span<const uint32_t>) override {
    return absl::OkStatus();
  }
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  // A loss of 0, and nothing right.
  absl::StatusOr<BatchResult> Result() override { return BatchResult(); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const Options options_;
  const std::string device_name_ = "updates";
  std::vector<v1::TableSpec> tables_;
  WorkerId worker_;
  std::optional<Step> pushed_;  // the step whose update is in the gradients
};

// Prepares a job of `updates`. `clock` outlives the setup.
JobSetup PrepareUpdatesJob(const v1::JobSpec& job, Clock* clock);

}  // namespace capstan

#endif  // WORKER_MODELS_UPDATES_UPDATES_ENGINE_H_
