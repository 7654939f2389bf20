#include "tests/metrics/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(SamplesTest, CommentsAreLeftOut) {
  EXPECT_THAT(ParseSamples("# HELP a b\n# TYPE a gauge\na 1\nb{c=\"d e\",f=\"g\"} +Inf\nh\n"),
              ElementsAre(Pair("a", 1), Pair("b{c=\"d e\",f=\"g\"}", INFINITY),
                          Pair("not a sample: h", 0)));
  EXPECT_TRUE(std::isnan(ParseSamples("a Nan\n")["a"]));
}

TEST(SamplesTest, AMetricHasAllItsLabels) {
  const Samples samples = ParseSamples("a{b=\"1\"} 1\na{b=\"2\"} 2\nab 4\nc_bucket{le=\"0\"} 1\n");
  EXPECT_EQ(SumOf(samples, "a"), 3);
  EXPECT_TRUE(HasMetric(samples, "a"));
  EXPECT_TRUE(HasMetric(samples, "c"));
  EXPECT_FALSE(HasMetric(samples, "b"));
}

}  // namespace
}  // namespace capstan
