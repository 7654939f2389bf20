#ifndef TESTS_SIMULATION_SCRIPTED_TRAINING_H_
#define TESTS_SIMULATION_SCRIPTED_TRAINING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/routing/routing_table.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_client.h"
#include "worker/client/parameter_store.h"
#include "worker/scheduler/slice_fifo_scheduler.h"

namespace capstan {

// The steps of a scripted worker: the real parameter store, client and scheduler, and in place of a
// model a time and test values. Run by one thread; the rest may be called by any.
class ScriptedTraining {
 public:
  // What the model would say.
  struct Script {
    std::vector<v1::TableSpec> tables;  // Required
    int64_t steps = 0;                  // Required: of each worker
    bool has_test_values = true;        // each slice has an element for each (worker, step)
    // Every other step is pushed without a pull, so that others pull while a worker is ahead of
    // them.
    bool pushes_ahead = false;
    // How long the worker computes at a step: a third of it forward, the rest backward, layer by
    // layer.
    std::function<absl::Duration(Step)> compute_time;
  };
  struct Options {
    Clock* clock = nullptr;                // All of these are required;
    const v1::GetJobReply* job = nullptr;  // what is pointed to outlives the training.
    const v1::JobView* view = nullptr;
    const Script* script = nullptr;
    WorkerId worker;
    Incarnation incarnation;
    ParameterClient::EndpointFactory connect;
  };

  explicit ScriptedTraining(Options options);

  // From `first_step` on. Stops with the first error of an exchange.
  absl::Status Run(Step first_step);
  // Pulls all values at the step after the last.
  absl::Status PullFinal();

  void UpdateRouting(const RoutingTable& routing) { client_->UpdateRouting(routing); }
  void Fail(absl::Status status) { store_->Fail(std::move(status)); }
  v1::Progress progress() const;

 private:
  absl::Status RunStep(Step step);
  // Makes each slice of the layer hold the update of `step`, and nothing else.
  void WriteGradients(int layer, Step step);
  // Pushes the layer without a pull, and waits until it is acknowledged.
  absl::Status PushOnly(int layer, Step step);

  Clock* const clock_;
  const Script& script_;
  const WorkerId worker_;
  const uint64_t slice_bytes_;
  int layer_count_ = 0;
  std::atomic<int64_t> steps_done_ = 0;

  SliceFifoScheduler scheduler_;  // Destroyed from below.
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<ParameterClient> client_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCRIPTED_TRAINING_H_
