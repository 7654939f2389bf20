#ifndef COMMON_HISTORY_CHECK_RULES_H_
#define COMMON_HISTORY_CHECK_RULES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/history/check/contract.h"
#include "common/history/check/history_index.h"
#include "common/history/history.h"

namespace capstan {

// The input of a rule. Borrows everything.
struct CheckedSlice {
  const History& history;
  const Contract& contract;
  const Lives& lives;
  const SliceHistory& slice;

  // `a_ns` was before `b_ns`, however far the clocks of the two are apart.
  bool IsBefore(int64_t a_ns, int64_t b_ns) const {
    return a_ns < b_ns && b_ns - a_ns > history.header.clock_skew_ns();
  }
  // `again` sees the values with which a step of `other`, of the same worker, began: a process in
  // the worker's place does it again.
  bool SeesOpenStep(const RecordedExchange& again, const RecordedExchange& other) const {
    return again.DoesAgain(other) && contract.Of(again.slice.table, *again.pull_step).is_isolated();
  }
  // `later` must not see older values than `earlier`, of the same worker.
  bool MustFollow(const RecordedExchange& later, const RecordedExchange& earlier) const {
    return later.Follows(earlier) && !SeesOpenStep(later, earlier);
  }
};

// A rule of the contract that a history breaks.
struct Violation {
  std::string rule;  // "read-my-writes"
  std::string what;  // a sentence on the seen and the expected
  // The proof. The answer to the first exchange breaks the rule.
  std::vector<const RecordedExchange*> exchanges;
};

// What a violation shows of an update.
enum class UpdateFate {
  kLost,     // a pull lacks it that must have it
  kDoubled,  // it was applied twice
};

// Collects the violations that rules find.
class Violations {
 public:
  // An update of a slice.
  using Update = std::tuple<SliceKey, WorkerId, Step>;

  // `exchanges` may hold nulls and duplicates, which are dropped.
  void Add(std::string rule, std::string what, std::vector<const RecordedExchange*> exchanges);
  // A violation has shown what became of this update. Each counts once.
  void Note(UpdateFate fate, const Update& update) { updates_[fate].insert(update); }
  // A version has shown that so many updates of the slice have this fate, but not which ones. The
  // largest number counts.
  void Note(UpdateFate fate, SliceKey slice, uint64_t updates);
  // Number of updates with this fate.
  size_t CountOf(UpdateFate fate) const;
  size_t size() const { return found_.size(); }
  // The violation that was answered first: rule, sentence, and a line for each exchange. Empty when
  // there is none.
  std::string DescribeFirst(const History& history) const;

 private:
  std::vector<Violation> found_;
  std::map<UpdateFate, std::set<Update>> updates_;
  std::map<UpdateFate, std::map<SliceKey, uint64_t>> nameless_;
};

// Rules on the version and min_step of each reply. They need no test values. They compare each
// reply with the pushes sent and acknowledged by then. Neither number goes back for a worker, a
// newer incarnation ends the older one's right to answers, initial values come from worker 0 before
// all else, and every exchange of a live worker is answered. If the job went on from a checkpoint,
// the first two need the checkpoint's updates.
void CheckReplies(const CheckedSlice& checked, Violations& violations);

// Rules on the divisor of the learning rate of pushes outside BSP. It must fit the header, the live
// workers, and the versions seen before and after the push. A push without a gradient has none.
void CheckUpdateScale(const CheckedSlice& checked, Violations& violations);

// Rules on the updates in each pull, as its test values tell them. A pull has no update that nobody
// sent, no update twice, and none that BSP must hide. It has every update within the staleness
// bound, the worker's own updates, and all updates acknowledged before. Its version and min_step
// agree with its updates. A push without a gradient is in no values, but counts in a mean.
void CheckValues(const CheckedSlice& checked, Violations& violations);

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_RULES_H_
