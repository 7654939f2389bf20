#include "tests/cuda_emulator/moment.h"

#include <thread>

#include "common/base/fake_clock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace emulator {
namespace {

TEST(MomentTest, KeepsTheTimeAtWhichItWasReached) {
  FakeClock clock;
  Moment moment(clock);
  EXPECT_FALSE(moment.IsReached());
  const absl::Time start = clock.Now();
  clock.Advance(absl::Seconds(3));
  moment.Reach();
  clock.Advance(absl::Seconds(4));
  EXPECT_TRUE(moment.IsReached());
  EXPECT_EQ(moment.time() - start, absl::Seconds(3));
}

TEST(MomentTest, WaitingForAMomentThatIsReachedReturnsAtOnce) {
  FakeClock clock;
  Moment moment(clock);
  moment.Reach();
  moment.Wait();
  EXPECT_TRUE(moment.IsReached());
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
