#include "server/consistency/consistency_policy.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

class BspPolicy : public ConsistencyPolicy {
 public:
  bool applies_whole_steps() const override { return true; }

  PullDecision Decide(Step pull_step, Step min_step) const override {
    if (min_step < pull_step) return PullDecision::kWait;
    return min_step == pull_step ? PullDecision::kAnswer : PullDecision::kTooLate;
  }
};

class SspPolicy : public ConsistencyPolicy {
 public:
  explicit SspPolicy(int64_t staleness) : staleness_(staleness) {}

  bool applies_whole_steps() const override { return false; }

  PullDecision Decide(Step pull_step, Step min_step) const override {
    // The difference cannot overflow; min_step + staleness could.
    return pull_step - min_step <= staleness_ ? PullDecision::kAnswer : PullDecision::kWait;
  }

 private:
  const int64_t staleness_;
};

class AsyncPolicy : public ConsistencyPolicy {
 public:
  bool applies_whole_steps() const override { return false; }

  PullDecision Decide(Step /*pull_step*/, Step /*min_step*/) const override {
    return PullDecision::kAnswer;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> MakeConsistencyPolicy(ConsistencyMode mode,
                                                                         int64_t staleness) {
  if (staleness < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("staleness: expected 0 or more steps, got ", staleness));
  }
  switch (mode) {
    case ConsistencyMode::kBsp:
      return std::make_unique<BspPolicy>();
    case ConsistencyMode::kSsp:
      return std::make_unique<SspPolicy>(staleness);
    case ConsistencyMode::kAsync:
      return std::make_unique<AsyncPolicy>();
  }
  return absl::InvalidArgumentError("consistency mode: expected BSP, SSP or ASYNC");
}

}  // namespace capstan
