#ifndef COMMON_HISTORY_CHECK_HISTORY_INDEX_H_
#define COMMON_HISTORY_CHECK_HISTORY_INDEX_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/history/history.h"

namespace capstan {

// One incarnation of a worker.
struct Life {
  Incarnation incarnation;
  int64_t joining_ns = 0;  // from here on it may hold min_step back
  int64_t entered_ns = 0;  // from here on its first step is known to all; never: it was not told
  int64_t died_ns = kNeverNs;
  Step first_step;
};

// Who was in the job, and when. Immutable, hence thread-safe.
class Lives {
 public:
  explicit Lives(const History& history);

  // The lives of each worker, one after the other.
  const std::map<WorkerId, std::vector<Life>>& all() const { return lives_; }
  // The exchange's own; it exists for every exchange of the history.
  const Life& Of(const RecordedExchange& exchange) const;
  // The life of `worker` that lasted all through [begin_ns, end_ns]; null when there is none.
  const Life* Through(WorkerId worker, int64_t begin_ns, int64_t end_ns) const;

 private:
  Life& Add(WorkerId worker, Incarnation incarnation);

  std::map<WorkerId, std::vector<Life>> lives_;
};

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

#endif  // COMMON_HISTORY_CHECK_HISTORY_INDEX_H_
