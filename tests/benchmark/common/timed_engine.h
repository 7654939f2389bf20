#ifndef TESTS_BENCHMARK_COMMON_TIMED_ENGINE_H_
#define TESTS_BENCHMARK_COMMON_TIMED_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/cluster/wrapped_engine.h"
#include "worker/engine/engine.h"

namespace capstan {

// Notes the beginning of each step of another engine. Used by one thread.
class TimedEngine : public WrappedEngine {
 public:
  // `before_step` runs before each step. `clock` and `step_begins` outlive the engine.
  TimedEngine(std::unique_ptr<Engine> engine, Clock* clock, std::vector<absl::Time>* step_begins,
              absl::AnyInvocable<absl::Status(Step)> before_step)
      : WrappedEngine(std::move(engine)),
        clock_(clock),
        step_begins_(step_begins),
        before_step_(std::move(before_step)) {}

  absl::Status RunStep(Step step, ParameterStore& store) override {
    step_begins_->push_back(clock_->Now());
    absl::Status status = before_step_(step);
    return status.ok() ? WrappedEngine::RunStep(step, store) : status;
  }

 private:
  Clock* const clock_;
  std::vector<absl::Time>* const step_begins_;
  absl::AnyInvocable<absl::Status(Step)> before_step_;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COMMON_TIMED_ENGINE_H_
