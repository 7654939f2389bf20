#ifndef SERVER_CONSISTENCY_CONSISTENCY_SCHEDULE_H_
#define SERVER_CONSISTENCY_CONSISTENCY_SCHEDULE_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "server/consistency/consistency_policy.h"

namespace capstan {

// Which policy counts at which step of one table, and what happens where whole steps begin and end
// to be applied: no update of a later step is applied before the last whole step is. Immutable,
// hence thread-safe.
class ConsistencySchedule {
 public:
  struct Period {
    Step first_step;  // until the next period's
    std::shared_ptr<const ConsistencyPolicy> policy;
  };

  // `periods` are in order of their first steps, which differ; the first one is 0.
  explicit ConsistencySchedule(std::vector<Period> periods) : periods_(std::move(periods)) {}

  // The pushes of `step` are one update; see ConsistencyPolicy.
  bool AppliesWholeStep(Step step) const { return IsWhole(PeriodOf(step)); }

  // What becomes of a pull, as ConsistencyPolicy::Decide. It also waits for the whole steps before
  // its period, or it would miss the worker's own pushes of them.
  PullDecision Decide(Step pull_step, Step min_step) const;

  // A push of `step` is kept until every live worker has completed so many steps; then it is
  // applied, a whole step as one. 0: it is applied when it arrives.
  Step KeptUntil(Step step) const;
  // Of a step whose pushes are kept: the first of the whole steps that keep it. From there, or from
  // min_step if that is more, a worker may push one step ahead.
  Step FirstKept(Step step) const;

 private:
  bool IsWhole(size_t period) const { return periods_[period].policy->applies_whole_steps(); }
  size_t PeriodOf(Step step) const;
  // The last period of whole steps up to `period`; -1: there is none.
  int LastWhole(size_t period) const;

  const std::vector<Period> periods_;
};

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_CONSISTENCY_SCHEDULE_H_
