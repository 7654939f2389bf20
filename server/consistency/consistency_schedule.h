#ifndef SERVER_CONSISTENCY_CONSISTENCY_SCHEDULE_H_
#define SERVER_CONSISTENCY_CONSISTENCY_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "server/consistency/consistency_policy.h"

namespace capstan {

// The consistency of one table from a step on.
struct ConsistencyPeriod {
  Step first_step;
  ConsistencyMode mode = ConsistencyMode::kBsp;
  int64_t staleness = 0;  // in steps, for SSP
};

// The consistency policy of each step of one table. A job's steps are cut into periods, and each
// period has one policy. The updates of a period wait for all whole steps before the period: steps
// whose pushes are applied as one update. Immutable, hence thread-safe.
class ConsistencySchedule {
 public:
  struct Period {
    Step first_step;  // the period ends before the first step of the next one
    std::shared_ptr<const ConsistencyPolicy> policy;
  };

  // `periods` are in ascending order of their first steps. The first one begins at step 0. They are
  // what MakeConsistencySchedule makes of `source`.
  ConsistencySchedule(std::vector<Period> periods, std::vector<ConsistencyPeriod> source)
      : periods_(std::move(periods)), source_(std::move(source)) {}

  // The schedule as it was given.
  const std::vector<ConsistencyPeriod>& source() const { return source_; }

  // Whether the pushes of `step` are applied as one update; see ConsistencyPolicy.
  bool AppliesWholeStep(Step step) const { return IsWhole(PeriodOf(step)); }

  // Decides about a pull, as ConsistencyPolicy::Decide. A pull also waits for the whole steps
  // before its period. Otherwise it could miss pushes of its own worker.
  PullDecision Decide(Step pull_step, Step min_step) const;

  // A push of `step` is kept until every live worker has completed this number of steps. Then it is
  // applied. 0: it is applied when it arrives.
  Step KeptUntil(Step step) const;
  // The first of the consecutive whole steps that a kept push of `step` waits for. A worker may
  // push at most one step beyond this step or min_step, whichever is later.
  Step FirstKept(Step step) const;

 private:
  bool IsWhole(size_t period) const { return periods_[period].policy->applies_whole_steps(); }
  size_t PeriodOf(Step step) const;
  // The last period of whole steps up to `period`; -1: there is none.
  int LastWhole(size_t period) const;

  const std::vector<Period> periods_;
  const std::vector<ConsistencyPeriod> source_;
};

// INVALID_ARGUMENT if the first period does not begin at step 0, if the first steps do not ascend,
// or if a staleness is negative.
absl::StatusOr<std::shared_ptr<const ConsistencySchedule>> MakeConsistencySchedule(
    absl::Span<const ConsistencyPeriod> periods);

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_CONSISTENCY_SCHEDULE_H_
