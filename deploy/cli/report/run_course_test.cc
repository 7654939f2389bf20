#include "deploy/cli/report/run_course.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLine[] =
    R"({"seconds": 1.5, "workers": [{"worker": 3, "steps_done": 7, "replies_of_staleness": [4, 1]}]})";

TEST(RunCourseTest, ReadsEachLine) {
  const auto samples = ParseRunCourse(std::string(kLine) + "\n" + kLine + "\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 2);
  EXPECT_EQ((*samples)[1].seconds, 1.5);
  const WorkerSample& worker = (*samples)[1].workers[0];
  EXPECT_EQ(worker.worker, 3);
  EXPECT_EQ(worker.steps_done, 7);
  EXPECT_EQ(worker.loss, 0) << "is not there";
  EXPECT_THAT(worker.replies_of_staleness, ElementsAre(4, 1));
}

TEST(RunCourseTest, ALastLineThatIsBrokenOffIsLeftOut) {
  const auto samples = ParseRunCourse(std::string(kLine) + "\n{\"seconds\": 2, \"wor");
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->size(), 1);
  EXPECT_TRUE(ParseRunCourse("")->empty());
}

TEST(RunCourseTest, AnythingElseIsRefusedWithItsLine) {
  for (const std::string bad : {"7", "{}", "{\"workers\": 1}", "nonsense", ""}) {
    const absl::Status status = ParseRunCourse(std::string(kLine) + "\n" + bad + "\n").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 2: expected a status of a job"));
  }
}

TEST(RunCourseTest, FieldsOfAnotherTypeCountAsMissing) {
  const auto samples = ParseRunCourse(
      "{\"seconds\": \"x\", \"workers\": [7, {\"worker\": 1e300, \"loss\": null, "
      "\"replies_of_staleness\": "
      "[\"x\"]}]}\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ((*samples)[0].seconds, 0);
  EXPECT_EQ((*samples)[0].workers[1].worker, 0);
  EXPECT_THAT((*samples)[0].workers[1].replies_of_staleness, ElementsAre(0));
}

}  // namespace
}  // namespace capstan
