#include "common/metrics/metric_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/match.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(MetricListTest, NamesAreDistinctAndSayTypeAndUnit) {
  std::set<std::string> names;
  for (const Metric& metric : MetricList()) {
    EXPECT_TRUE(names.insert(std::string(metric.name)).second) << metric.name;
    EXPECT_EQ(absl::EndsWith(metric.name, "_total"), metric.type == MetricType::kCounter)
        << metric.name;
    EXPECT_TRUE(absl::StartsWith(metric.name, "capstan_") ||
                absl::StartsWith(metric.name, "process_"))
        << metric.name;
  }
}

TEST(MetricListTest, EachMetricHasAProgramAndAHelpOfOneLine) {
  for (const Metric& metric : MetricList()) {
    EXPECT_NE(metric.programs, 0) << metric.name;
    EXPECT_FALSE(metric.help.empty()) << metric.name;
    EXPECT_FALSE(absl::StrContains(metric.help, "\n")) << metric.name;
    EXPECT_FALSE(absl::StrContains(metric.help, "|")) << metric.name << ": breaks the table";
  }
}

TEST(MetricListTest, AMetricIsFoundByItsName) {
  const Metric* const metric = FindMetric("capstan_server_exchanges_total");
  ASSERT_NE(metric, nullptr);
  EXPECT_EQ(metric->labels, "kind");
  EXPECT_EQ(metric->programs, kOfServer);
  EXPECT_EQ(FindMetric("capstan_server_exchanges"), nullptr);
}

TEST(MetricListTest, TheTableHasARowForEach) {
  EXPECT_THAT(MetricTable(), HasSubstr("| `capstan_members{role, state}` | gauge | coordinator |"));
  EXPECT_THAT(MetricTable(), HasSubstr("| `process_open_fds` | gauge | all |"));
  EXPECT_THAT(MetricTable(), HasSubstr("| counter | coordinator, server |"));
  EXPECT_THAT(MetricTable(), HasSubstr("| counter | worker with a GPU |"));
}

}  // namespace
}  // namespace capstan
