#include "server/coordinator/alarm.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/base/fake_clock.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

class AlarmTest : public ::testing::Test {
 protected:
  void RingAfter(int seconds) { alarm_->RingBy(clock_.Now() + absl::Seconds(seconds)); }
  int RingsAfterAnother(int seconds) {
    clock_.Advance(absl::Seconds(seconds));
    return rings_;
  }

  FakeClock clock_;
  int rings_ = 0;
  std::unique_ptr<Alarm> alarm_ = std::make_unique<Alarm>(clock_, [this] { ++rings_; });
};

TEST_F(AlarmTest, RingsAtTheTimeAskedFor) {
  RingAfter(2);
  EXPECT_EQ(RingsAfterAnother(1), 0);
  EXPECT_EQ(RingsAfterAnother(1), 1);
  EXPECT_EQ(RingsAfterAnother(100), 1);
}

TEST_F(AlarmTest, RingsAtTheEarlierOfTwoTimes) {
  RingAfter(5);
  RingAfter(2);
  EXPECT_EQ(RingsAfterAnother(2), 1);
}

TEST_F(AlarmTest, OneRingServesALaterTimeToo) {
  RingAfter(2);
  RingAfter(5);
  EXPECT_EQ(RingsAfterAnother(10), 1);
}

TEST_F(AlarmTest, MayBeSetAgainFromItsFunction) {
  alarm_ = std::make_unique<Alarm>(clock_, [this] {
    if (++rings_ < 3) RingAfter(1);
  });
  RingAfter(1);
  EXPECT_EQ(RingsAfterAnother(10), 3);
}

TEST_F(AlarmTest, DoesNotRingAfterItIsDestroyed) {
  RingAfter(1);
  alarm_.reset();
  EXPECT_EQ(RingsAfterAnother(2), 0);
}

TEST(AlarmOnRealClockTest, MayBeDestroyedBeforeAndAfterItHasRung) {
  RealClock clock;
  {
    Alarm never_set(clock, [] {});
  }
  OneShot<bool> rung(&clock);
  Alarm alarm(clock, [&rung] { rung.Set(true); });
  alarm.RingBy(clock.Now());
  EXPECT_TRUE(rung.Wait());
}

}  // namespace
}  // namespace capstan
