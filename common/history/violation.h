#ifndef COMMON_HISTORY_VIOLATION_H_
#define COMMON_HISTORY_VIOLATION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/history/contract.h"
#include "common/history/history.h"
#include "common/history/lives.h"
#include "common/history/slice_history.h"

namespace capstan {

// A rule of the contract that a history breaks.
struct Violation {
  std::string rule;  // "read-my-writes"
  std::string what;  // a sentence on what was seen, and what was expected
  // What proves it; the first one is the exchange that should not have been answered so.
  std::vector<const RecordedExchange*> exchanges;
};

// What a rule looks at. Borrows everything.
struct CheckedSlice {
  const History& history;
  const Contract& contract;
  const Lives& lives;
  const SliceHistory& slice;

  // Certainly before `b_ns`, whatever the clocks of the two.
  bool IsBefore(int64_t a_ns, int64_t b_ns) const {
    return a_ns < b_ns && b_ns - a_ns > history.header.clock_skew_ns();
  }
};

// Collects what rules find.
class Violations {
 public:
  void Add(std::string rule, std::string what, std::vector<const RecordedExchange*> exchanges);
  bool empty() const { return found_.empty(); }
  // The one whose first exchange was answered first. There is one.
  const Violation& First() const;

 private:
  std::vector<Violation> found_;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_VIOLATION_H_
