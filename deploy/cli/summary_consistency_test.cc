#include "deploy/cli/summary_consistency.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

std::string Text(const char* summary) {
  return SummaryConsistencyText(nlohmann::json::parse(summary));
}

TEST(SummaryConsistencyTest, SaysEachPeriodAndWhereItBegins) {
  EXPECT_EQ(Text(R"({"consistency_periods": [
                      {"from_step": 0, "consistency": "bsp", "staleness": 0},
                      {"from_step": 120, "consistency": "ssp", "staleness": 4,
                       "table_staleness": {"fc1.weight": 2, "fc2.weight": 0}},
                      {"from_step": 300, "consistency": "async", "staleness": null}]})"),
            "bsp; from step 120 on: ssp, staleness 4 (fc1.weight 2, fc2.weight 0); "
            "from step 300 on: async");
}

TEST(SummaryConsistencyTest, OfAJobThatWasNotChangedSaysWhatItPromised) {
  EXPECT_EQ(Text(R"({"consistency_periods": [
                      {"from_step": 0, "consistency": "ssp", "staleness": 1}]})"),
            "ssp, staleness 1");
}

TEST(SummaryConsistencyTest, ASummaryWithoutPeriodsSaysNothing) {
  EXPECT_EQ(Text(R"({"consistency": "bsp"})"), "");
  EXPECT_EQ(Text(R"({"consistency_periods": 3})"), "");
  EXPECT_EQ(Text(R"({"consistency_periods": [3]})"), "");
}

}  // namespace
}  // namespace capstan
