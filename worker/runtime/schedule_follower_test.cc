#include "worker/runtime/schedule_follower.h"

#include <gtest/gtest.h>

#include <vector>

namespace capstan {
namespace {

v1::JobView ViewOf(int64_t first_step, uint64_t credit_bytes) {
  v1::JobView view;
  view.mutable_schedule()->set_first_step(first_step);
  view.mutable_schedule()->set_partition_bytes(2 * credit_bytes);
  view.mutable_schedule()->set_credit_bytes(credit_bytes);
  return view;
}

class ScheduleFollowerTest : public testing::Test {
 protected:
  ScheduleFollowerTest() : follower_(MakeOptions()) {}

  ScheduleFollower::Options MakeOptions() {
    ScheduleFollower::Options options;
    options.apply = [this](const v1::SchedulePeriod& period) {
      EXPECT_EQ(period.partition_bytes(), 2 * period.credit_bytes());
      credits_.push_back(period.credit_bytes());
    };
    options.on_measured = [this] { ++reports_; };
    return options;
  }
  // Steps [first, end), each of so long.
  void Run(int64_t first, int64_t end, absl::Duration time) {
    for (int64_t step = first; step < end; ++step) {
      follower_.BeginStep(Step(step));
      follower_.RecordStep(time);
    }
  }

  std::vector<uint64_t> credits_;
  int reports_ = 0;
  ScheduleFollower follower_;
};

TEST_F(ScheduleFollowerTest, NothingHappensBeforeThereIsAPeriod) {
  follower_.OnView(v1::JobView());
  Run(0, 200, absl::Seconds(1));
  EXPECT_TRUE(credits_.empty());
  EXPECT_EQ(follower_.times().steps(), 0u);
  EXPECT_EQ(reports_, 0);
}

TEST_F(ScheduleFollowerTest, TakesAPeriodAtItsFirstStepOrTheNextOne) {
  follower_.OnView(ViewOf(0, 10));
  Run(0, 1, absl::Seconds(1));
  EXPECT_EQ(credits_, std::vector<uint64_t>{10});
  follower_.OnView(ViewOf(5, 20));
  Run(1, 5, absl::Seconds(1));
  EXPECT_EQ(credits_, std::vector<uint64_t>{10}) << "not before step 5";
  Run(5, 9, absl::Seconds(1));
  EXPECT_EQ(credits_, (std::vector<uint64_t>{10, 20}));
  follower_.OnView(ViewOf(7, 30));
  Run(9, 12, absl::Seconds(1));
  EXPECT_EQ(credits_, (std::vector<uint64_t>{10, 20, 30})) << "it is further than step 7";
  EXPECT_EQ(follower_.times().first_step(), 7);
}

TEST_F(ScheduleFollowerTest, AnOlderViewThatComesLaterChangesNothing) {
  follower_.OnView(ViewOf(5, 20));
  follower_.OnView(ViewOf(0, 10));
  Run(0, 5, absl::Seconds(1));
  EXPECT_TRUE(credits_.empty());
  Run(5, 7, absl::Seconds(1));
  EXPECT_EQ(credits_, std::vector<uint64_t>{20});
}

TEST_F(ScheduleFollowerTest, MeasuresThePeriodWithoutItsFirstTwoStepsAndTellsOnce) {
  follower_.OnView(ViewOf(0, 10));
  Run(0, 2, absl::Hours(1));
  EXPECT_EQ(follower_.times().steps(), 0u);
  Run(2, 13, absl::Seconds(3));
  EXPECT_EQ(follower_.times().steps(), 11u);
  EXPECT_EQ(follower_.times().median_step_seconds(), 3);
  EXPECT_EQ(reports_, 0);
  Run(13, 14, absl::Seconds(1));
  EXPECT_EQ(reports_, 1);
  Run(14, 100, absl::Seconds(1));
  EXPECT_EQ(reports_, 1);
  EXPECT_EQ(follower_.times().steps(), 12u) << "what follows does not count";
  follower_.OnView(ViewOf(100, 20));
  Run(100, 203, absl::Milliseconds(1));
  EXPECT_EQ(reports_, 2);
  EXPECT_EQ(follower_.times().first_step(), 100);
  EXPECT_EQ(follower_.times().steps(), 100u);
  EXPECT_EQ(follower_.times().median_step_seconds(), 0.001);
}

TEST(MedianTimeTest, IsTheMiddleOne) {
  EXPECT_EQ(MedianTime({}), absl::ZeroDuration());
  EXPECT_EQ(MedianTime({absl::Seconds(5), absl::Seconds(1), absl::Seconds(3)}), absl::Seconds(3));
  EXPECT_EQ(MedianTime({absl::Seconds(2), absl::Seconds(1)}), absl::Seconds(2));
}

}  // namespace
}  // namespace capstan
