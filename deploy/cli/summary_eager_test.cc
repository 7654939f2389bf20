#include "deploy/cli/summary_eager.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::nlohmann::json;

TEST(SummaryEagerTest, SaysWhatPullsWaitedFor) {
  EXPECT_EQ(
      SummaryEagerText(json::parse(
          R"({"eager_pulls": {"at_once": 1164, "after_own_push": 30, "after_others": 6}})")),
      "97.0 % of 1,200 pulls answered at once from the worker's cache, 2.5 % when its own push "
      "was back, 0.5 % when slower workers had caught up");
}

TEST(SummaryEagerTest, IsEmptyWhereNothingIsTold) {
  EXPECT_EQ(SummaryEagerText(json::parse(R"({"steps": 5})")), "");
  EXPECT_EQ(SummaryEagerText(json::parse(R"({"eager_pulls": 7})")), "");
  EXPECT_EQ(SummaryEagerText(json::parse(R"({"eager_pulls": {"at_once": "many"}})")), "");
}

}  // namespace
}  // namespace capstan
