#include "tests/cuda_emulator/stream_queue.h"

#include <future>
#include <vector>

#include "common/base/real_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace emulator {
namespace {

using ::testing::ElementsAre;

TEST(StreamQueueTest, DoesOneAfterTheOtherInOrder) {
  RealClock clock;
  StreamQueue queue(clock);
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) queue.Push([&order, i](BlockRunner&) { order.push_back(i); });

  queue.PushMoment()->Wait();

  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(StreamQueueTest, PushReturnsBeforeItIsDone) {
  RealClock clock;
  std::promise<void> gate;
  StreamQueue queue(clock);
  queue.Push([&](BlockRunner&) { gate.get_future().wait(); });

  const std::shared_ptr<Moment> moment = queue.PushMoment();

  EXPECT_FALSE(moment->IsReached());
  gate.set_value();
  moment->Wait();
  EXPECT_TRUE(moment->IsReached());
}

TEST(StreamQueueTest, TwoQueuesWaitForNoneButTheirMoments) {
  RealClock clock;
  std::promise<void> gate;
  int done = 0;
  StreamQueue slow(clock);
  StreamQueue fast(clock);
  slow.Push([&](BlockRunner&) { gate.get_future().wait(); });
  slow.Push([&](BlockRunner&) { ++done; });
  const std::shared_ptr<Moment> moment = slow.PushMoment();

  fast.PushMoment()->Wait();
  fast.Push([moment](BlockRunner&) { moment->Wait(); });
  fast.Push([&](BlockRunner&) { done *= 10; });
  gate.set_value();
  fast.PushMoment()->Wait();

  EXPECT_EQ(done, 10);
}

TEST(StreamQueueTest, EndsWhenAllIsDone) {
  RealClock clock;
  int done = 0;
  {
    StreamQueue queue(clock);
    for (int i = 0; i < 100; ++i) queue.Push([&](BlockRunner&) { ++done; });
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
