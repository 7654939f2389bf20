#ifndef COMMON_HISTORY_CHECK_HISTORY_INDEX_H_
#define COMMON_HISTORY_CHECK_HISTORY_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/history/history.h"

namespace capstan {

// One incarnation of a worker.
struct Life {
  Incarnation incarnation;
  int64_t joining_ns = 0;      // from then on it may hold min_step back
  int64_t entered_ns = 0;      // from then on all know its first step; kNeverNs: not recorded
  int64_t died_ns = kNeverNs;  // or left
  bool has_left = false;
  Step first_step;
};

// The workers of a job, with the times of their incarnations. Immutable, hence thread-safe.
class Lives {
 public:
  explicit Lives(const History& history);

  // The lives of each worker, one after the other.
  const std::map<WorkerId, std::vector<Life>>& all() const { return lives_; }
  // The life of the exchange's incarnation. Every exchange of the history has one.
  const Life& Of(const RecordedExchange& exchange) const;
  // The life of `worker` that includes [begin_ns, end_ns]; null when there is none.
  const Life* Through(WorkerId worker, int64_t begin_ns, int64_t end_ns) const;

 private:
  Life& Add(WorkerId worker, Incarnation incarnation);

  std::map<WorkerId, std::vector<Life>> lives_;
};

// The push of one update. Null: did not happen.
struct PushFacts {
  const RecordedExchange* first_sent = nullptr;
  const RecordedExchange* first_acknowledged = nullptr;
  uint64_t learning_rate_divisor = 0;  // 0: not recorded
  bool is_restored = false;            // the checkpoint has it

  // It was sent, without a gradient.
  bool is_empty() const { return first_sent != nullptr && first_sent->is_empty_push; }
};

// The exchanges of one slice, with an index of its pushes. Borrows the history's exchanges.
class SliceHistory {
 public:
  using Update = std::pair<WorkerId, Step>;

  // `exchanges` are all of one slice, at least one, in order of begin. The updates of `restored`
  // were sent and acknowledged before all of them.
  explicit SliceHistory(std::vector<const RecordedExchange*> exchanges,
                        const v1::RestoredSlice& restored = {});

  SliceKey key() const { return exchanges_.front()->slice; }
  const std::vector<const RecordedExchange*>& exchanges() const { return exchanges_; }
  const std::map<Update, PushFacts>& pushes() const { return pushes_; }

  // All null for an update that nobody sent.
  PushFacts FactsOf(WorkerId worker, Step step) const;
  // Whether any push has no gradient.
  bool has_empty_pushes() const { return has_empty_pushes_; }

 private:
  const std::vector<const RecordedExchange*> exchanges_;
  std::vector<std::shared_ptr<const RecordedExchange>> restored_;  // pushes of RestoredSlice
  std::map<Update, PushFacts> pushes_;
  bool has_empty_pushes_ = false;
};

// The history's exchanges by slice, in order of table and slice.
std::vector<SliceHistory> SplitBySlice(const History& history);

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_HISTORY_INDEX_H_
