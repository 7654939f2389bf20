#ifndef COMMON_HISTORY_LIVES_H_
#define COMMON_HISTORY_LIVES_H_

#include <cstdint>
#include <map>
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

}  // namespace capstan

#endif  // COMMON_HISTORY_LIVES_H_
