#include "tests/benchmark/step_gradient.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

// Prime, so that neighbours that were swapped, or a slice in another's place, are seen.
constexpr size_t kPeriod = 7;

float Pattern(size_t element) { return static_cast<float>(1 + element % kPeriod); }

// kPeriod elements of the pattern times `factor`.
std::array<float, kPeriod> OnePeriod(double factor) {
  std::array<float, kPeriod> period;
  for (size_t i = 0; i < kPeriod; ++i) period[i] = static_cast<float>(factor * Pattern(i));
  return period;
}

}  // namespace

void FillGradient(int worker, absl::Span<float> gradient) {
  const auto period = OnePeriod(worker + 1);
  for (size_t i = 0; i < gradient.size(); i += kPeriod) {
    std::copy_n(period.data(), std::min(kPeriod, gradient.size() - i), &gradient[i]);
  }
}

double SumOfGradients(int num_workers) { return num_workers * (num_workers + 1) / 2.0; }

absl::Status CheckPattern(absl::Span<const float> values, double factor) {
  const auto period = OnePeriod(factor);
  for (size_t i = 0; i < values.size(); i += kPeriod) {
    const absl::Span<const float> part = values.subspan(i, kPeriod);
    const auto [got, expected] = std::mismatch(part.begin(), part.end(), period.begin());
    if (got == part.end()) continue;
    return absl::InternalError(absl::StrCat("element ", i + (got - part.begin()),
                                            " is wrong: expected ", *expected, ", got ", *got));
  }
  return absl::OkStatus();
}

}  // namespace capstan
