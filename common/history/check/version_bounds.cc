#include "common/history/check/version_bounds.h"

#include <algorithm>
#include <limits>

namespace capstan {
namespace {

size_t CountBelow(const std::vector<int64_t>& sorted, int64_t bound) {
  return static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), bound) -
                             sorted.begin());
}

}  // namespace

VersionBounds::VersionBounds(const SliceHistory& slice, const Contract& contract) {
  // Each completed step has a push, so there are at most this many steps.
  const size_t size = slice.pushes().size() + 2;
  const auto is_whole = [&](size_t step) {
    return contract.Of(slice.key().table, Step(static_cast<int64_t>(step))).is_isolated();
  };
  next_whole_.assign(size, std::numeric_limits<int64_t>::max());
  for (size_t step = size; step-- > 0;) {
    if (is_whole(step)) {
      next_whole_[step] = static_cast<int64_t>(step);
    } else if (step + 1 < size) {
      next_whole_[step] = next_whole_[step + 1];
    }
  }
  std::vector<bool> is_acknowledged(size, false), is_empty(size, false), is_update(size, false);
  for (const auto& [update, facts] : slice.pushes()) {
    const size_t step = IndexOf(update.second);
    (facts.is_empty() ? is_empty : is_update)[step] = true;
    if (facts.is_empty()) continue;
    const bool is_known = facts.first_acknowledged != nullptr;
    if (next_whole_[step] == static_cast<int64_t>(step)) {
      is_acknowledged[step] = is_acknowledged[step] || is_known;
      continue;
    }
    sent_ns_.push_back(facts.first_sent->begin_ns);
    if (is_known) acknowledged_ns_[next_whole_[step]].push_back(facts.first_acknowledged->end_ns);
  }
  std::sort(sent_ns_.begin(), sent_ns_.end());
  for (auto& [next_whole, times] : acknowledged_ns_) std::sort(times.begin(), times.end());
  whole_below_.assign(size, 0);
  acknowledged_below_.assign(size, 0);
  for (size_t step = 1; step < size; ++step) {
    const bool was_whole = next_whole_[step - 1] == static_cast<int64_t>(step - 1) &&
                           (is_update[step - 1] || !is_empty[step - 1]);
    whole_below_[step] = whole_below_[step - 1] + was_whole;
    acknowledged_below_[step] = acknowledged_below_[step - 1] + is_acknowledged[step - 1];
  }
}

size_t VersionBounds::IndexOf(Step step) const {
  const auto last = static_cast<int64_t>(next_whole_.size()) - 1;
  return static_cast<size_t>(std::clamp<int64_t>(step.value(), 0, last));
}

uint64_t VersionBounds::Least(Step min_step, int64_t asked_ns) const {
  const size_t index = IndexOf(min_step);
  uint64_t least = acknowledged_below_[index];
  for (const auto& [next_whole, times] : acknowledged_ns_) {
    // Pushes beyond an open BSP step may be kept.
    if (next_whole <= next_whole_[index]) least += CountBelow(times, asked_ns);
  }
  return least;
}

uint64_t VersionBounds::Most(Step min_step, int64_t answered_ns) const {
  return whole_below_[IndexOf(min_step)] + CountBelow(sent_ns_, answered_ns + 1);
}

}  // namespace capstan
