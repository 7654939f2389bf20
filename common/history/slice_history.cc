#include "common/history/slice_history.h"

#include <utility>

namespace capstan {

SliceHistory::SliceHistory(std::vector<const RecordedExchange*> exchanges)
    : exchanges_(std::move(exchanges)) {
  for (const RecordedExchange* exchange : exchanges_) {
    if (!exchange->push_step.has_value()) continue;
    PushFacts& facts = pushes_[{exchange->worker, *exchange->push_step}];
    if (facts.first_sent == nullptr) facts.first_sent = exchange;
    if (!exchange->is_ok()) continue;
    facts.learning_rate_divisor =
        std::max(facts.learning_rate_divisor, exchange->learning_rate_divisor);
    const bool is_first =
        facts.first_acknowledged == nullptr || exchange->end_ns < facts.first_acknowledged->end_ns;
    if (is_first) facts.first_acknowledged = exchange;
  }
}

PushFacts SliceHistory::FactsOf(WorkerId worker, Step step) const {
  const auto it = pushes_.find({worker, step});
  return it == pushes_.end() ? PushFacts() : it->second;
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
