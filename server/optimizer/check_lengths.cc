#include "server/optimizer/check_lengths.h"

#include <glog/logging.h>

#include <cstddef>

namespace capstan {

void CheckLengths(const Optimizer& optimizer, absl::Span<const float> gradient,
                  absl::Span<const float> values, absl::Span<const absl::Span<float>> state) {
  CHECK_EQ(gradient.size(), values.size());
  CHECK_EQ(state.size(), static_cast<size_t>(optimizer.state_count()));
  for (const absl::Span<float> array : state) CHECK_EQ(array.size(), values.size());
}

}  // namespace capstan
