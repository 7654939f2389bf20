#ifndef COMMON_HISTORY_SLICE_HISTORY_H_
#define COMMON_HISTORY_SLICE_HISTORY_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/history/history.h"

namespace capstan {

// What is known of the push of one update; null what never happened.
struct PushFacts {
  const RecordedExchange* first_sent = nullptr;
  const RecordedExchange* first_acknowledged = nullptr;
  uint64_t learning_rate_divisor = 0;  // 0: not told
};

// The exchanges of one slice, with an index of its pushes. Borrows the history's exchanges.
class SliceHistory {
 public:
  using Update = std::pair<WorkerId, Step>;

  // `exchanges` are all of one slice, at least one, in order of begin.
  explicit SliceHistory(std::vector<const RecordedExchange*> exchanges);

  SliceKey key() const { return exchanges_.front()->slice; }
  const std::vector<const RecordedExchange*>& exchanges() const { return exchanges_; }
  const std::map<Update, PushFacts>& pushes() const { return pushes_; }

  // Nothing is known of an update that nobody sent.
  PushFacts FactsOf(WorkerId worker, Step step) const;

 private:
  const std::vector<const RecordedExchange*> exchanges_;
  std::map<Update, PushFacts> pushes_;
};

// The history's exchanges by slice, in order of table and slice.
std::vector<SliceHistory> SplitBySlice(const History& history);

}  // namespace capstan

#endif  // COMMON_HISTORY_SLICE_HISTORY_H_
