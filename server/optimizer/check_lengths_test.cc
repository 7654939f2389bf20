#include "server/optimizer/check_lengths.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/optimizer/optimizer.h"

namespace capstan {
namespace {

class TwoStateOptimizer : public Optimizer {
 public:
  int state_count() const override { return 2; }
  void Apply(absl::Span<const float>, const Application&, absl::Span<float>,
             absl::Span<const absl::Span<float>>) const override {}
};

void CheckWith(size_t gradient_size, size_t value_size, const std::vector<size_t>& state_sizes) {
  std::vector<float> array(8);
  std::vector<absl::Span<float>> state;
  for (const size_t size : state_sizes) state.push_back(absl::MakeSpan(array.data(), size));
  CheckLengths(TwoStateOptimizer(), absl::MakeSpan(array.data(), gradient_size),
               absl::MakeSpan(array.data(), value_size), state);
}

TEST(CheckLengthsTest, AcceptsArraysOfOneLength) {
  CheckWith(/*gradient_size=*/8, /*value_size=*/8, /*state_sizes=*/{8, 8});
  CheckWith(/*gradient_size=*/0, /*value_size=*/0, /*state_sizes=*/{0, 0});
}

TEST(CheckLengthsDeathTest, DiesOfUnequalLengthsAndOfMissingState) {
  EXPECT_DEATH(CheckWith(/*gradient_size=*/7, /*value_size=*/8, /*state_sizes=*/{8, 8}), "7 vs. 8");
  EXPECT_DEATH(CheckWith(/*gradient_size=*/8, /*value_size=*/8, /*state_sizes=*/{8, 6}), "6 vs. 8");
  EXPECT_DEATH(CheckWith(/*gradient_size=*/8, /*value_size=*/8, /*state_sizes=*/{8}), "1 vs. 2");
}

}  // namespace
}  // namespace capstan
