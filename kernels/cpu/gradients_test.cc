#include "kernels/cpu/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "common/tensor/vector_targets.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSignallingNan = std::numeric_limits<float>::signaling_NaN();

TEST(IsFiniteTest, NumbersAreFinite) {
  ForEachVectorTarget([] {
    EXPECT_TRUE(IsFinite({}));
    for (const float number : {0.0f, -0.0f, 1.0f, kMax, -kMax, 0x1p-126f, 0x1p-149f, -0x1p-149f}) {
      for (const size_t size : {1, 16, 67}) {
        EXPECT_TRUE(IsFinite(std::vector<float>(size, number))) << number;
      }
    }
    Random random(/*seed=*/81);
    EXPECT_TRUE(IsFinite(NormalVector(1001, random)));
  });
}

TEST(IsFiniteTest, OneNonFiniteValueIsFoundWhereverItIs) {
  ForEachVectorTarget([] {
    for (const float value : {kInfinity, -kInfinity, kNan, -kNan, kSignallingNan}) {
      std::vector<float> values(131, 1.0f);
      for (size_t offset = 0; offset < 3; ++offset) {
        for (size_t i = offset; i < values.size(); ++i) {
          values[i] = value;
          EXPECT_FALSE(IsFinite(absl::MakeSpan(values).subspan(offset))) << value << " at " << i;
          values[i] = 1.0f;
        }
      }
    }
  });
}

TEST(IsFiniteTest, NeighboursAreNotLookedAt) {
  ForEachVectorTarget([] {
    std::vector<float> values(67, kNan);
    for (size_t i = 1; i + 1 < values.size(); ++i) values[i] = 1.0f;
    EXPECT_TRUE(IsFinite(absl::MakeSpan(values).subspan(1, 65)));
  });
}

// One element at a time, from the first term on.
std::vector<float> MeanByDefinition(const std::vector<std::vector<float>>& terms) {
  std::vector<float> mean(terms[0].size());
  for (size_t i = 0; i < mean.size(); ++i) {
    volatile float sum = terms[0][i];
    for (size_t term = 1; term < terms.size(); ++term) sum = sum + terms[term][i];
    mean[i] = sum / static_cast<float>(terms.size());
  }
  return mean;
}

void ExpectMean(size_t count, size_t size, size_t shift) {
  SCOPED_TRACE(testing::Message() << count << " terms of " << size << ", shift " << shift);
  Random random(/*seed=*/82, /*stream=*/count);
  std::vector<std::vector<float>> terms(count);
  std::vector<const float*> shifted;
  for (std::vector<float>& term : terms) {
    term = NormalVector(static_cast<int64_t>(size), random);
    // Their sizes differ much, and some are denormal, so that the order of addition shows.
    for (size_t i = 0; i < size; ++i) term[i] *= i % 7 == 0 ? 1e-42f : i % 7 == 1 ? 1e30f : 1.0f;
  }
  std::vector<std::vector<float>> memory(count, std::vector<float>(size + shift));
  for (size_t term = 0; term < count; ++term) {
    std::copy(terms[term].begin(), terms[term].end(), memory[term].begin() + shift);
    shifted.push_back(memory[term].data() + shift);
  }
  std::vector<float> mean(shift + size + 1, -1.0f);

  Mean(shifted, absl::MakeSpan(mean).subspan(shift, size));

  const std::vector<float> expected = MeanByDefinition(terms);
  for (size_t i = 0; i < size; ++i) EXPECT_EQ(mean[shift + i], expected[i]) << "element " << i;
  for (size_t i = 0; i < shift; ++i) EXPECT_EQ(mean[i], -1.0f);
  EXPECT_EQ(mean.back(), -1.0f);
}

TEST(MeanTest, HasTheBitsOfTheDefinition) {
  ForEachVectorTarget([] {
    for (const size_t count : {1, 2, 3, 5, 8}) {
      for (const size_t size : {0, 1, 7, 64, 1001}) {
        for (const size_t shift : {0, 1, 3}) ExpectMean(count, size, shift);
      }
    }
  });
}

}  // namespace
}  // namespace capstan
