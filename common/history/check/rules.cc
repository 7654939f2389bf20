#include "common/history/check/rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {

void Violations::Add(std::string rule, std::string what,
                     std::vector<const RecordedExchange*> exchanges) {
  std::vector<const RecordedExchange*> distinct;
  for (const RecordedExchange* exchange : exchanges) {
    const bool is_new = std::find(distinct.begin(), distinct.end(), exchange) == distinct.end();
    if (exchange != nullptr && is_new) distinct.push_back(exchange);
  }
  found_.push_back({std::move(rule), std::move(what), std::move(distinct)});
}

void Violations::Note(UpdateFate fate, SliceKey slice, uint64_t updates) {
  uint64_t& most = nameless_[fate][slice];
  most = std::max(most, updates);
}

size_t Violations::CountOf(UpdateFate fate) const {
  std::map<SliceKey, uint64_t> counts;
  if (const auto named = updates_.find(fate); named != updates_.end()) {
    for (const Update& update : named->second) ++counts[std::get<SliceKey>(update)];
  }
  // They may be the same updates.
  if (const auto nameless = nameless_.find(fate); nameless != nameless_.end()) {
    for (const auto& [slice, most] : nameless->second) {
      counts[slice] = std::max(counts[slice], most);
    }
  }
  size_t count = 0;
  for (const auto& [slice, updates] : counts) count += updates;
  return count;
}

std::string Violations::DescribeFirst(const History& history) const {
  if (found_.empty()) return "";
  const Violation& first =
      *std::min_element(found_.begin(), found_.end(), [](const Violation& a, const Violation& b) {
        return a.exchanges.front()->end_ns < b.exchanges.front()->end_ns;
      });
  std::string text = absl::StrCat(first.rule, ": ", first.what);
  for (const RecordedExchange* exchange : first.exchanges) {
    absl::StrAppend(&text, "\n  ", Describe(*exchange, history.begin_ns));
  }
  return text;
}

}  // namespace capstan
