#include "worker/client/store_traffic.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/time/time.h"

namespace capstan {
namespace {

ExchangeReply Reply(int64_t min_step) {
  static const auto& values = *new std::shared_ptr<const float>(std::make_shared<float>(1.0f));
  ExchangeReply reply;
  reply.min_step = Step(min_step);
  reply.values = Payload({values.get(), 1}, values);
  return reply;
}

ExchangeReply KeptReply(int64_t min_step, CacheWait waited_for) {
  ExchangeReply reply = Reply(min_step);
  reply.asked_at = absl::UnixEpoch();
  reply.waited_for = waited_for;
  return reply;
}

TEST(TrafficCounterTest, StalenessIsCountedMeanAndLargest) {
  TrafficCounter counter;
  counter.CountPull(Step(7), Reply(5));
  counter.CountPull(Step(7), Reply(4));
  counter.CountPull(Step(8), KeptReply(8, CacheWait::kNothing));
  EXPECT_EQ(counter.traffic().steps_ahead, 0);
  EXPECT_EQ(counter.traffic().max_staleness_seen, 3);
  EXPECT_DOUBLE_EQ(counter.traffic().mean_staleness_seen, 5.0 / 3);
  EXPECT_EQ(counter.traffic().replies_of_staleness, (std::vector<uint64_t>{1, 0, 1, 1}));
}

TEST(TrafficCounterTest, StalenessBeyondTheLastCountIsCountedThere) {
  TrafficCounter counter;
  counter.CountPull(Step(501), Reply(1));
  const StoreTraffic& traffic = counter.traffic();
  ASSERT_EQ(traffic.replies_of_staleness.size(), StoreTraffic::kStalenessCounts);
  EXPECT_EQ(traffic.replies_of_staleness.back(), 1u);
  EXPECT_EQ(traffic.mean_staleness_seen, 500);
}

TEST(TrafficCounterTest, KeptValuesAreCountedByWhatTheirPullsWaitedFor) {
  TrafficCounter counter;
  for (int i = 0; i < 3; ++i) counter.CountPull(Step(1), KeptReply(0, CacheWait::kNothing));
  counter.CountPull(Step(1), KeptReply(0, CacheWait::kOwnPush));
  for (int i = 0; i < 2; ++i) counter.CountPull(Step(1), KeptReply(0, CacheWait::kOtherWorkers));
  counter.CountPull(Step(1), Reply(0));
  EXPECT_EQ(counter.traffic().pulls_at_once, 3u);
  EXPECT_EQ(counter.traffic().pulls_after_own_push, 1u);
  EXPECT_EQ(counter.traffic().pulls_after_others, 2u);
  EXPECT_EQ(counter.traffic().bytes_pulled, sizeof(float)) << "the cache counts what it keeps";
}

}  // namespace
}  // namespace capstan
