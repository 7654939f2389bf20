#include "common/metrics/process_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(ProcessMetricsTest, TheNameMayHaveAnyCharacters) {
  const std::optional<ProcessNumbers> numbers = ParseProcessStat(
      "42 (a) b ( 7) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 1200 20 3 22 23 24\n");
  ASSERT_TRUE(numbers.has_value());
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(numbers->cpu_seconds, 300 / ticks);
  EXPECT_EQ(numbers->seconds_after_boot, 1200 / ticks);
  EXPECT_EQ(numbers->resident_bytes, 3 * sysconf(_SC_PAGESIZE));
}

TEST(ProcessMetricsTest, AnotherFormatGivesNothing) {
  for (const char* const text : {"", "42 (a)", "42 (a) S 1 2",
                                 "42 (a) S 1 2 3 4 5 6 7 8 9 10 x y 1"
                                 " 2 3 4 5 6 z 8 9 10 11 12"}) {
    EXPECT_FALSE(ParseProcessStat(text).has_value()) << text;
  }
}

TEST(ProcessMetricsTest, ThisProcessHasThemAll) {
  MetricsPage page;
  AddProcessMetrics(page);
  for (const Metric& metric : MetricList()) {
    if (metric.name.substr(0, 8) != "process_") continue;
    EXPECT_THAT(page.Text(), HasSubstr("\n" + std::string(metric.name) + " ")) << metric.name;
  }
}

}  // namespace
}  // namespace capstan
