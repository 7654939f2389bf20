#ifndef COMMON_HISTORY_CHECK_SLICE_CONTENTS_H_
#define COMMON_HISTORY_CHECK_SLICE_CONTENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace capstan {

// The updates in the test values of a slice.
class SliceContents {
 public:
  // INVALID_ARGUMENT when there are not workers x steps values. INVALID_ARGUMENT, naming the value,
  // when it is neither a multiple of kTestUpdate nor kTestUpdate divided by a whole number.
  static absl::StatusOr<SliceContents> Decode(absl::Span<const float> values, uint32_t num_workers,
                                              int64_t steps);

  // No updates. The product of both is small.
  static SliceContents Empty(uint32_t num_workers, int64_t steps) {
    return SliceContents(num_workers, steps);
  }
  // Sets an element, which exists. INVALID_ARGUMENT as Decode. The element then has the update
  // twice if it is positive, as it may be the sum of two parts, and else not at all.
  absl::Status Set(size_t element, float value);

  // The element of the update is as in `other`, of the same size.
  bool IsSame(const SliceContents& other, WorkerId worker, Step step) const {
    const Element& mine = At(worker, step);
    const Element& others = other.At(worker, step);
    return mine.count == others.count && mine.divisor == others.divisor;
  }
  // How often the update is in. More than 1 is an error of a server.
  int Count(WorkerId worker, Step step) const { return At(worker, step).count; }
  bool Has(WorkerId worker, Step step) const { return Count(worker, step) > 0; }
  // The divisor of an update with count 1: the size of its mean, or the divisor of its learning
  // rate.
  int DivisorOf(WorkerId worker, Step step) const { return At(worker, step).divisor; }
  // Number of workers with an update of `step`, and number of those updates with repetitions.
  int Workers(Step step) const { return totals_[step.value()].workers; }
  int Updates(Step step) const { return totals_[step.value()].updates; }

  uint32_t num_workers() const { return num_workers_; }
  int64_t steps() const { return steps_; }

 private:
  struct Element {
    int16_t count = 0;
    int16_t divisor = 1;
  };

  struct Total {
    int workers = 0;
    int updates = 0;
  };

  SliceContents(uint32_t num_workers, int64_t steps)
      : num_workers_(num_workers),
        steps_(steps),
        elements_(num_workers * steps),
        totals_(static_cast<size_t>(steps)) {}
  const Element& At(WorkerId worker, Step step) const;

  uint32_t num_workers_;
  int64_t steps_;
  std::vector<Element> elements_;
  std::vector<Total> totals_;  // of each step
};

}  // namespace capstan

#endif  // COMMON_HISTORY_CHECK_SLICE_CONTENTS_H_
