#include "common/history/check/slice_contents.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/test_values.h"

namespace capstan {
namespace {

// `value` as a whole number, up to float32's rounding. 0 if it is not whole, not positive, or
// large.
int16_t SmallWholeNumber(float value) {
  constexpr float kRounding = 1e-6f;
  if (!(value > 0.5f && value < 10000)) return 0;
  const float whole = std::round(value);
  return std::abs(value - whole) <= kRounding * whole ? static_cast<int16_t>(whole) : 0;
}

}  // namespace

absl::StatusOr<SliceContents> SliceContents::Decode(absl::Span<const float> values,
                                                    uint32_t num_workers, int64_t steps) {
  // A division, because the product may overflow.
  const bool has_all = num_workers > 0 && steps > 0 && values.size() % num_workers == 0 &&
                       values.size() / num_workers == static_cast<uint64_t>(steps);
  if (!has_all) {
    return absl::InvalidArgumentError(absl::StrCat("expected a test value for each of ",
                                                   num_workers, " workers and ", steps,
                                                   " steps, got ", values.size()));
  }
  SliceContents contents(num_workers, steps);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0) RETURN_IF_ERROR(contents.Set(i, values[i]));
  }
  return contents;
}

absl::Status SliceContents::Set(size_t element, float value) {
  Element set;
  set.count = SmallWholeNumber(value / kTestUpdate);
  bool is_update = set.count > 0;
  if (value != 0 && !is_update) {
    set.divisor = SmallWholeNumber(kTestUpdate / value);
    is_update = set.divisor > 0;
    // A sum of two parts, as of an update that was applied with two divisors.
    const bool is_sum = !is_update && value > 0;
    set.count = is_update ? 1 : is_sum ? 2 : 0;
  }
  Total& total = totals_[element % static_cast<size_t>(steps_)];
  const Element before = std::exchange(elements_[element], set);
  total.workers += (set.count > 0) - (before.count > 0);
  total.updates += set.count - before.count;
  if (value == 0 || is_update) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the element of worker ", element / steps_, " and step ", element % steps_,
                   " is ", value, ", expected a multiple or a whole part of ", kTestUpdate));
}

const SliceContents::Element& SliceContents::At(WorkerId worker, Step step) const {
  return elements_[TestElement(worker, step, steps_)];
}

}  // namespace capstan
