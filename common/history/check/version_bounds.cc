#include "common/history/check/version_bounds.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

namespace capstan {
namespace {

size_t CountBelow(const std::vector<int64_t>& sorted, int64_t bound) {
  return static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), bound) -
                             sorted.begin());
}

}  // namespace

VersionBounds::VersionBounds(const SliceHistory& slice, const Contract& contract) {
  std::set<int64_t> begins = {0};
  for (const int64_t step : contract.FirstSteps()) begins.insert(std::max<int64_t>(step, 0));
  for (const auto& [update, facts] : slice.pushes()) {
    // Files may have any steps.
    const int64_t step = std::clamp(update.second.value(), int64_t{0}, kLargestStep.value());
    begins.insert({step, step + 1});
  }
  for (const int64_t begin : begins) ranges_.emplace_back().begin = begin;
  const auto is_whole = [&](const Range& range) {
    return contract.Of(slice.key().table, Step(range.begin)).is_isolated();
  };
  int64_t next_whole = std::numeric_limits<int64_t>::max();
  for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range) {
    if (is_whole(*range)) next_whole = range->begin;
    range->next_whole = next_whole;
  }
  const auto index_of = [this](Step step) { return &RangeOf(step) - ranges_.data(); };
  std::vector<bool> is_acknowledged(ranges_.size()), is_empty(ranges_.size()),
      is_update(ranges_.size());
  for (const auto& [update, facts] : slice.pushes()) {
    const auto index = static_cast<size_t>(index_of(update.second));
    const Range& range = ranges_[index];
    (facts.is_empty() ? is_empty : is_update)[index] = true;
    if (facts.is_empty()) continue;
    const bool is_known = facts.first_acknowledged != nullptr;
    if (range.next_whole == range.begin) {
      is_acknowledged[index] = is_acknowledged[index] || is_known;
      continue;
    }
    sent_ns_.push_back(facts.first_sent->begin_ns);
    if (is_known) acknowledged_ns_[range.next_whole].push_back(facts.first_acknowledged->end_ns);
  }
  std::sort(sent_ns_.begin(), sent_ns_.end());
  for (auto& [step, times] : acknowledged_ns_) std::sort(times.begin(), times.end());
  for (size_t i = 0; i < ranges_.size(); ++i) {
    Range& range = ranges_[i];
    range.counts = range.next_whole == range.begin && (is_update[i] || !is_empty[i]);
    if (i == 0) continue;
    const Range& before = ranges_[i - 1];
    const auto steps = static_cast<uint64_t>(range.begin - before.begin);
    range.whole_below = before.whole_below + (before.counts ? steps : 0);
    range.acknowledged_below = before.acknowledged_below + (is_acknowledged[i - 1] ? 1 : 0);
  }
}

const VersionBounds::Range& VersionBounds::RangeOf(Step step) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), step.value(),
                       [](int64_t value, const Range& range) { return value < range.begin; });
  return after == ranges_.begin() ? ranges_.front() : *std::prev(after);
}

uint64_t VersionBounds::Least(Step min_step, int64_t asked_ns) const {
  const Range& range = RangeOf(min_step);
  const bool is_whole = range.next_whole == range.begin;
  const int64_t next_whole = is_whole ? min_step.value() : range.next_whole;
  uint64_t least = range.acknowledged_below;
  for (const auto& [step, times] : acknowledged_ns_) {
    // Pushes beyond an open BSP step may be kept.
    if (step <= next_whole) least += CountBelow(times, asked_ns);
  }
  return least;
}

uint64_t VersionBounds::Most(Step min_step, int64_t answered_ns) const {
  const Range& range = RangeOf(min_step);
  const auto steps = static_cast<uint64_t>(std::max<int64_t>(min_step.value() - range.begin, 0));
  return range.whole_below + (range.counts ? steps : 0) + CountBelow(sent_ns_, answered_ns + 1);
}

}  // namespace capstan
