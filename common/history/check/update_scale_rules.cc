#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/history/check/rules.h"

namespace capstan {
namespace {

using UpdateScale = v1::HistoryHeader;

// The largest version in the answers of a slice, over time.
class ShownVersions {
 public:
  explicit ShownVersions(const SliceHistory& slice) {
    for (const RecordedExchange* exchange : slice.exchanges()) {
      if (exchange->is_ok()) largest_[exchange->end_ns] = exchange->version;
    }
    uint64_t largest = 0;
    for (auto& [end_ns, version] : largest_) version = largest = std::max(largest, version);
  }

  // The largest version in an answer before `time_ns`.
  uint64_t Before(int64_t time_ns) const {
    const auto after = largest_.lower_bound(time_ns);
    return after == largest_.begin() ? 0 : std::prev(after)->second;
  }

 private:
  std::map<int64_t, uint64_t> largest_;  // by the time of the answer
};

struct Range {
  uint64_t least = 1;
  uint64_t most = 1;
};

// Range of the number of live workers known to a server during the push. Servers hear of a death at
// different times.
Range LiveWorkers(const CheckedSlice& checked, const RecordedExchange& push) {
  const v1::HistoryHeader& header = checked.history.header;
  const int64_t begin_ns = push.begin_ns - header.clock_skew_ns();
  const int64_t end_ns = push.end_ns + header.clock_skew_ns() + header.settle_ns();
  uint64_t certain = 0;
  for (const auto& [worker, lives] : checked.lives.all()) {
    certain += checked.lives.Through(worker, begin_ns, end_ns) != nullptr;
  }
  return {std::max<uint64_t>(certain, 1), checked.history.header.num_workers()};
}

// Range of the divisor of the learning rate of a push outside BSP.
Range Divisors(const CheckedSlice& checked, const ShownVersions& shown,
               const RecordedExchange& push) {
  const v1::HistoryHeader& header = checked.history.header;
  const Range live = LiveWorkers(checked, push);
  switch (header.update_scale()) {
    case UpdateScale::SUM:
      return {1, 1};
    case UpdateScale::MEAN:
      return live;
    default:
      break;
  }
  if (!push.base_version.has_value()) return live;
  const uint64_t base = *push.base_version;
  const uint64_t before = shown.Before(push.begin_ns - header.clock_skew_ns());
  // One version in its answer is the push itself.
  const uint64_t after = push.version == 0 ? 0 : push.version - 1;
  return {live.least + (before > base ? before - base : 0),
          live.most + (after > base ? after - base : 0)};
}

void CheckDivisor(const CheckedSlice& checked, const ShownVersions& shown,
                  const RecordedExchange& push, Violations& violations) {
  const bool is_part_of_mean = checked.contract.Of(push.slice.table, *push.push_step).is_isolated();
  const Range expected =
      is_part_of_mean || push.is_empty_push ? Range{0, 0} : Divisors(checked, shown, push);
  const uint64_t divisor = push.learning_rate_divisor;
  if (divisor >= expected.least && divisor <= expected.most) return;
  violations.Add("update scale",
                 absl::StrCat("the learning rate of the push of step ", push.push_step->value(),
                              " by worker ", push.worker.value(), " was divided by ", divisor,
                              ", expected ", expected.least, " to ", expected.most),
                 {&push});
}

// A push names the version of the values of its gradient. The worker must have pulled them last. If
// clocks differ, several pulls may have been the last one.
void CheckBaseVersions(const CheckedSlice& checked, Violations& violations) {
  const int64_t skew = checked.history.header.clock_skew_ns();
  std::map<Incarnation, std::vector<const RecordedExchange*>> pulls;  // candidates for the last one
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    std::vector<const RecordedExchange*>& candidates = pulls[exchange->incarnation];
    const RecordedExchange* latest = nullptr;
    for (const RecordedExchange* pull : candidates) {
      if (pull->end_ns > exchange->begin_ns) continue;
      if (latest == nullptr || latest->end_ns <= pull->end_ns) latest = pull;
    }
    if (latest != nullptr) {
      const auto is_older = [&](const RecordedExchange* pull) {
        return pull != latest && pull->end_ns <= exchange->begin_ns &&
               pull->end_ns + skew <= latest->end_ns;
      };
      candidates.erase(std::remove_if(candidates.begin(), candidates.end(), is_older),
                       candidates.end());
    }
    const auto is_base = [&](const RecordedExchange* pull) {
      return pull->end_ns <= exchange->begin_ns + skew && pull->version == exchange->base_version;
    };
    if (exchange->base_version.has_value() && latest != nullptr &&
        std::none_of(candidates.begin(), candidates.end(), is_base)) {
      violations.Add(
          "update scale",
          absl::StrCat("a push of worker ", exchange->worker.value(),
                       " says that it was computed with version ", *exchange->base_version,
                       ", but it had pulled version ", latest->version),
          {exchange, latest});
    }
    if (exchange->is_ok() && exchange->pull_step.has_value()) candidates.push_back(exchange);
  }
}

}  // namespace

void CheckUpdateScale(const CheckedSlice& checked, Violations& violations) {
  if (checked.history.header.update_scale() == UpdateScale::UPDATE_SCALE_UNSPECIFIED) return;
  const ShownVersions shown(checked.slice);
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    if (exchange->is_ok() && exchange->push_step.has_value() &&
        exchange->learning_rate_divisor != 0) {
      CheckDivisor(checked, shown, *exchange, violations);
    }
  }
  CheckBaseVersions(checked, violations);
}

}  // namespace capstan
