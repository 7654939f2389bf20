#include "kernels/copy.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

TEST(CopyTest, CopiesEveryElementAndNoneBeyond) {
  CpuStream stream;
  Random random(/*seed=*/61);
  for (const int n : {0, 1, 7, 1000}) {
    const std::vector<float> source = NormalVector(n + 1, random);
    std::vector<float> target(n + 1, 9.0f);
    std::vector<float> expected = source;
    expected.back() = 9.0f;
    ASSERT_TRUE(Copy(n, source.data(), target.data(), stream).ok());
    EXPECT_EQ(target, expected);
  }
}

}  // namespace
}  // namespace capstan
