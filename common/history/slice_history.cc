#include "common/history/slice_history.h"

#include <algorithm>

namespace capstan {
namespace {

size_t CountBelow(const std::vector<int64_t>& sorted, int64_t bound) {
  return static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), bound) -
                             sorted.begin());
}

}  // namespace

SliceHistory::SliceHistory(std::vector<const RecordedExchange*> exchanges)
    : exchanges_(std::move(exchanges)) {
  for (const RecordedExchange* exchange : exchanges_) {
    if (!exchange->push_step.has_value()) continue;
    PushFacts& facts = pushes_[{exchange->worker, *exchange->push_step}];
    if (facts.first_sent == nullptr) facts.first_sent = exchange;
    if (!exchange->is_ok()) continue;
    const bool is_first =
        facts.first_acknowledged == nullptr || exchange->end_ns < facts.first_acknowledged->end_ns;
    if (is_first) facts.first_acknowledged = exchange;
  }
  for (const auto& [update, facts] : pushes_) {
    sent_ns_.push_back(facts.first_sent->begin_ns);
    if (facts.first_acknowledged != nullptr) {
      acknowledged_ns_.push_back(facts.first_acknowledged->end_ns);
      acknowledged_steps_.push_back(update.second.value());
    }
  }
  std::sort(sent_ns_.begin(), sent_ns_.end());
  std::sort(acknowledged_ns_.begin(), acknowledged_ns_.end());
  std::sort(acknowledged_steps_.begin(), acknowledged_steps_.end());
  acknowledged_steps_.erase(std::unique(acknowledged_steps_.begin(), acknowledged_steps_.end()),
                            acknowledged_steps_.end());
}

PushFacts SliceHistory::FactsOf(WorkerId worker, Step step) const {
  const auto it = pushes_.find({worker, step});
  return it == pushes_.end() ? PushFacts() : it->second;
}

size_t SliceHistory::SentBefore(int64_t time_ns) const { return CountBelow(sent_ns_, time_ns); }

size_t SliceHistory::AcknowledgedBefore(int64_t time_ns) const {
  return CountBelow(acknowledged_ns_, time_ns);
}

size_t SliceHistory::AcknowledgedStepsBelow(Step step) const {
  return CountBelow(acknowledged_steps_, step.value());
}

std::vector<SliceHistory> SplitBySlice(const History& history) {
  std::map<SliceKey, std::vector<const RecordedExchange*>> exchanges;
  for (const RecordedExchange& exchange : history.exchanges) {
    exchanges[exchange.slice].push_back(&exchange);
  }
  std::vector<SliceHistory> slices;
  for (auto& [key, of_slice] : exchanges) slices.emplace_back(std::move(of_slice));
  return slices;
}

}  // namespace capstan
