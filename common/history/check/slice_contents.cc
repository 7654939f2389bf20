#include "common/history/check/slice_contents.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/history/history.h"

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
    if (values[i] == 0) continue;
    Element& element = contents.elements_[i];
    element.count = SmallWholeNumber(values[i] / kTestUpdate);
    if (element.count > 0) continue;
    element.count = 1;
    element.divisor = SmallWholeNumber(kTestUpdate / values[i]);
    if (element.divisor > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the element of worker ", i / steps, " and step ", i % steps, " is ",
                     values[i], ", expected a multiple or a whole part of ", kTestUpdate));
  }
  return contents;
}

const SliceContents::Element& SliceContents::At(WorkerId worker, Step step) const {
  return elements_[TestElement(worker, step, steps_)];
}

int SliceContents::Workers(Step step) const {
  int workers = 0;
  for (uint32_t worker = 0; worker < num_workers_; ++worker) workers += Has(WorkerId(worker), step);
  return workers;
}

int SliceContents::Updates(Step step) const {
  int updates = 0;
  for (uint32_t worker = 0; worker < num_workers_; ++worker) {
    updates += Count(WorkerId(worker), step);
  }
  return updates;
}

}  // namespace capstan
