#include "common/history/violation.h"

#include <algorithm>

namespace capstan {

void Violations::Add(std::string rule, std::string what,
                     std::vector<const RecordedExchange*> exchanges) {
  // A fact that never happened has no exchange, and one may prove two things.
  std::vector<const RecordedExchange*> distinct;
  for (const RecordedExchange* exchange : exchanges) {
    const bool is_new = std::find(distinct.begin(), distinct.end(), exchange) == distinct.end();
    if (exchange != nullptr && is_new) distinct.push_back(exchange);
  }
  found_.push_back({std::move(rule), std::move(what), std::move(distinct)});
}

const Violation& Violations::First() const {
  return *std::min_element(found_.begin(), found_.end(),
                           [](const Violation& a, const Violation& b) {
                             return a.exchanges.front()->end_ns < b.exchanges.front()->end_ns;
                           });
}

}  // namespace capstan
