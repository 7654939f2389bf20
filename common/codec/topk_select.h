#ifndef COMMON_CODEC_TOPK_SELECT_H_
#define COMMON_CODEC_TOPK_SELECT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace capstan {

// The k numbers of largest magnitude in a sequence; among equals the first ones.
struct TopkSelection {
  // All numbers are finite; otherwise the rest is undefined.
  bool is_finite = false;
  size_t k = 0;
  // Positions of the selected numbers, ascending, and these numbers.
  std::unique_ptr<uint32_t[]> indices;
  std::unique_ptr<float[]> numbers;
  // No selected number is smaller in magnitude, no other one is larger.
  float cut = 0;
  // The sum of squares of `values`. Set only if there is a residual.
  double square_sum = 0;
};

// Selects `k` of the numbers values + residual, or of the values if the residual is empty. Takes
// linear time, and memory for 3 k numbers with positions. 0 < k <= number of values <= 2^32.
TopkSelection SelectTopk(absl::Span<const float> values, absl::Span<const float> residual,
                         size_t k);

// Adds the values to the residual, then takes `sent` (one for each selected number) from the
// selected elements. `selection` is that of the same values and residual. Returns the sum of
// squares of the new residual.
double UpdateResidual(absl::Span<const float> values, const TopkSelection& selection,
                      absl::Span<const float> sent, absl::Span<float> residual);

}  // namespace capstan

#endif  // COMMON_CODEC_TOPK_SELECT_H_
