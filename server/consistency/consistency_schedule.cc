#include "server/consistency/consistency_schedule.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {

size_t ConsistencySchedule::PeriodOf(Step step) const {
  size_t period = periods_.size() - 1;
  while (period > 0 && step < periods_[period].first_step) --period;
  return period;
}

int ConsistencySchedule::LastWhole(size_t period) const {
  int last = static_cast<int>(period);
  while (last >= 0 && !IsWhole(last)) --last;
  return last;
}

PullDecision ConsistencySchedule::Decide(Step pull_step, Step min_step) const {
  const size_t period = PeriodOf(pull_step);
  if (!IsWhole(period) && min_step < KeptUntil(pull_step)) return PullDecision::kWait;
  return periods_[period].policy->Decide(pull_step, min_step);
}

Step ConsistencySchedule::KeptUntil(Step step) const {
  const size_t period = PeriodOf(step);
  if (IsWhole(period)) return step + 1;
  const int last_whole = LastWhole(period);
  return last_whole < 0 ? Step(0) : periods_[last_whole + 1].first_step;
}

Step ConsistencySchedule::FirstKept(Step step) const {
  int first = LastWhole(PeriodOf(step));
  while (first > 0 && IsWhole(first - 1)) --first;
  return first < 0 ? step : periods_[first].first_step;
}

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
  return std::make_shared<const ConsistencySchedule>(
      std::move(made), std::vector<ConsistencyPeriod>(periods.begin(), periods.end()));
}

}  // namespace capstan
