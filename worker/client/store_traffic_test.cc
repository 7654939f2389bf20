#include "worker/client/store_traffic.h"

#include <gtest/gtest.h>

#include <memory>

namespace capstan {
namespace {

ExchangeReply Reply(int64_t min_step) {
  static const auto& values = *new std::shared_ptr<const float>(std::make_shared<float>(1.0f));
  ExchangeReply reply;
  reply.min_step = Step(min_step);
  reply.values = Payload({values.get(), 1}, values);
  return reply;
}

TEST(TrafficCounterTest, StalenessIsCountedMeanAndLargest) {
  TrafficCounter counter;
  counter.CountPull(Step(7), Reply(5), /*float_bytes=*/2 * sizeof(float));
  counter.CountPull(Step(7), Reply(4), /*float_bytes=*/2 * sizeof(float));
  counter.CountPull(Step(8), Reply(8), /*float_bytes=*/2 * sizeof(float));
  EXPECT_EQ(counter.traffic().steps_ahead, 0);
  EXPECT_EQ(counter.traffic().max_staleness_seen, 3);
  EXPECT_DOUBLE_EQ(counter.traffic().mean_staleness_seen, 5.0 / 3);
  EXPECT_EQ(counter.traffic().replies_of_staleness, (std::vector<uint64_t>{1, 0, 1, 1}));
  EXPECT_EQ(counter.traffic().bytes_pulled, 3 * sizeof(float));
  EXPECT_EQ(counter.traffic().float_bytes_pulled, 6 * sizeof(float));
}

TEST(TrafficCounterTest, StalenessBeyondTheLastCountIsCountedThere) {
  TrafficCounter counter;
  counter.CountPull(Step(501), Reply(1), /*float_bytes=*/2 * sizeof(float));
  const StoreTraffic& traffic = counter.traffic();
  ASSERT_EQ(traffic.replies_of_staleness.size(), StoreTraffic::kStalenessCounts);
  EXPECT_EQ(traffic.replies_of_staleness.back(), 1u);
  EXPECT_EQ(traffic.mean_staleness_seen, 500);
}

TEST(TrafficCounterTest, BytesAreCountedByCodec) {
  TrafficCounter counter;
  counter.CountPush(CodecType::kInt8, /*bytes=*/5, /*float_bytes=*/20);
  counter.CountPush(CodecType::kFloat32, /*bytes=*/8, /*float_bytes=*/8);
  counter.CountPull(Step(1), Reply(1), /*float_bytes=*/4);
  counter.CountExchange();
  const StoreTraffic& traffic = counter.traffic();
  EXPECT_EQ(traffic.pushed_by_codec.of(CodecType::kInt8), 5);
  EXPECT_EQ(traffic.pushed_by_codec.of(CodecType::kFloat32), 8);
  EXPECT_EQ(traffic.pulled_by_codec.of(CodecType::kFloat32), sizeof(float));
  EXPECT_EQ(traffic.bytes_pushed, 13);
  EXPECT_EQ(traffic.exchanges, 1);
}

}  // namespace
}  // namespace capstan
