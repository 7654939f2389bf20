#include "server/consistency/consistency_schedule.h"

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

}  // namespace capstan
