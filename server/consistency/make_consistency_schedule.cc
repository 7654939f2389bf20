#include "server/consistency/make_consistency_schedule.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {

absl::StatusOr<std::shared_ptr<const ConsistencySchedule>> MakeConsistencySchedule(
    absl::Span<const ConsistencyPeriod> periods) {
  if (periods.empty() || periods.front().first_step != Step(0)) {
    return absl::InvalidArgumentError("consistency: expected a period that begins at step 0");
  }
  std::vector<ConsistencySchedule::Period> made;
  for (const ConsistencyPeriod& period : periods) {
    if (!made.empty() && period.first_step <= made.back().first_step) {
      return absl::InvalidArgumentError(absl::StrCat(
          "consistency: expected a period that begins after step ", made.back().first_step.value(),
          ", got one at step ", period.first_step.value()));
    }
    auto policy = MakeConsistencyPolicy(period.mode, period.staleness);
    if (!policy.ok()) return policy.status();
    made.push_back({period.first_step, *std::move(policy)});
  }
  return std::make_shared<const ConsistencySchedule>(std::move(made));
}

}  // namespace capstan
