#include "tests/benchmark/step_gradient.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

// Prime, so that neighbours that were swapped, or a slice in another's place, are seen.
constexpr size_t kPeriod = 7;

float Pattern(size_t element) { return static_cast<float>(1 + element % kPeriod); }

}  // namespace

void FillGradient(int worker, absl::Span<float> gradient) {
  const auto factor = static_cast<float>(worker + 1);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = factor * Pattern(i);
}

double SumOfGradients(int num_workers) { return num_workers * (num_workers + 1) / 2.0; }

absl::Status CheckPattern(absl::Span<const float> values, double factor) {
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = factor * Pattern(i);
    if (values[i] == expected) continue;
    return absl::InternalError(
        absl::StrCat("element ", i, " is wrong: expected ", expected, ", got ", values[i]));
  }
  return absl::OkStatus();
}

}  // namespace capstan
