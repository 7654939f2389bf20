#include "kernels/fill.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/cpu_stream.h"

namespace capstan {
namespace {

TEST(FillTest, WritesEveryElementAndNoneBeyond) {
  CpuStream stream;
  for (const int n : {0, 1, 7, 1000}) {
    std::vector<float> values(n + 1, 5.0f);
    std::vector<float> expected(n, -0.5f);
    expected.push_back(5.0f);
    ASSERT_TRUE(Fill(n, /*value=*/-0.5f, values.data(), stream).ok());
    EXPECT_EQ(values, expected);
  }
}

}  // namespace
}  // namespace capstan
