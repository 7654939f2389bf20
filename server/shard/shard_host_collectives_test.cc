// Collective operations through a host: at which slice, when, and for whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/codec.h"
#include "common/exchange/payload_floats.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The worker's part in the sum of these values.
ExchangeRequest SumRequest(int worker, const std::vector<float>& values, int64_t step = 0) {
  const auto copy = std::make_shared<const std::vector<float>>(values);
  Collective part;
  part.step = Step(step);
  part.type = CollectiveType::kSum;
  part.shape = {values.size()};
  part.values = Payload(*copy, copy);
  ExchangeRequest request = Request(worker, std::nullopt, std::nullopt);
  request.purpose = std::move(part);
  return request;
}

TEST(ShardHostCollectivesTest, AllWorkersGetTheSum) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  const auto first = Send(*host, SumRequest(0, {1, 2}));
  EXPECT_EQ(first->replies, 0);
  ShardCounts counts = host->counts();
  EXPECT_EQ(counts.collectives, 1);
  EXPECT_EQ(counts.parked, 1);
  const auto second = Send(*host, SumRequest(1, {10, 20}));
  for (const auto& result : {first, second}) {
    ASSERT_EQ(result->replies, 1);
    EXPECT_TRUE(result->reply.status.ok()) << result->reply.status;
    EXPECT_THAT(Floats(result->reply.values), ElementsAre(11, 22));
    EXPECT_EQ(result->reply.epoch, Epoch(1));
    EXPECT_EQ(result->reply.version, 0u) << "the parameters are as they were";
  }
  counts = host->counts();
  EXPECT_EQ(counts.collectives, 2);
  EXPECT_EQ(counts.parked, 0);
  EXPECT_EQ(counts.own_states, 0);
  EXPECT_EQ(host->num_exchanges(), 2);
  EXPECT_EQ(counts.received.of(CodecType::kFloat32), 4 * sizeof(float));
  EXPECT_EQ(counts.sent.of(CodecType::kFloat32), 4 * sizeof(float));
}

TEST(ShardHostCollectivesTest, AtAnotherSliceTheyAreRefused) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/1);
  ExchangeRequest request = SumRequest(0, {1});
  request.slice.slice = SliceIndex(1);
  const auto result = Send(*host, std::move(request));
  ASSERT_EQ(result->replies, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(result->reply.status));
  EXPECT_THAT(std::string(result->reply.status.message()),
              HasSubstr("at the first slice of the job's first table"));
  EXPECT_EQ(host->counts().collectives, 0);
}

TEST(ShardHostCollectivesTest, TheyNeedBsp) {
  for (const ConsistencyMode mode : {ConsistencyMode::kSsp, ConsistencyMode::kAsync}) {
    const auto host = MakeHost(mode, /*staleness=*/2, /*num_workers=*/1);
    const auto result = Send(*host, SumRequest(0, {1}));
    ASSERT_EQ(result->replies, 1);
    EXPECT_TRUE(absl::IsUnimplemented(result->reply.status)) << result->reply.status;
    EXPECT_EQ(host->counts().parked, 0);
  }
}

TEST(ShardHostCollectivesTest, TheConsistencyOfTheirStepCounts) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.schedules = {
      Schedule({{Step(0), ConsistencyMode::kBsp, 0}, {Step(2), ConsistencyMode::kAsync, 0}})};
  const auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0}));
  EXPECT_TRUE(Send(*host, SumRequest(0, {1}, /*step=*/1))->reply.status.ok());
  EXPECT_TRUE(absl::IsUnimplemented(Send(*host, SumRequest(0, {1}, /*step=*/2))->reply.status));
}

TEST(ShardHostCollectivesTest, AWorkersRemovalCompletesThem) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/3);
  const auto first = Send(*host, SumRequest(0, {1}));
  const auto removed = Send(*host, SumRequest(1, {10}));
  host->SetLiveWorkers(Workers({0, 2}));
  ASSERT_EQ(removed->replies, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(removed->reply.status)) << removed->reply.status;
  EXPECT_EQ(first->replies, 0) << "worker 2 is there";
  host->SetLiveWorkers(Workers({0}));
  ASSERT_EQ(first->replies, 1);
  EXPECT_THAT(Floats(first->reply.values), ElementsAre(1));
  EXPECT_EQ(host->counts().parked, 0);
}

TEST(ShardHostCollectivesTest, WhoIsNoMemberTakesNoPart) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Send(*host, SumRequest(1, {1}))->reply.status));
  ExchangeRequest stale = SumRequest(0, {1});
  stale.sender.incarnation = Incarnation(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Send(*host, std::move(stale))->reply.status));
  EXPECT_EQ(host->counts().collectives, 0);
}

TEST(ShardHostCollectivesTest, AJoinedWorkerHearsOfAPush) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  ExchangeRequest join = Request(0, std::nullopt, std::nullopt);
  Collective part;
  part.type = CollectiveType::kJoin;
  join.purpose = part;
  const auto joined = Send(*host, std::move(join));
  EXPECT_EQ(joined->replies, 0);
  const auto pushed = PushPull(*host, /*worker=*/1, 0, 1);
  EXPECT_EQ(pushed->replies, 0) << "step 0 of worker 0 is not done";
  ASSERT_EQ(joined->replies, 1);
  int64_t number = 0;
  ASSERT_EQ(joined->reply.values.size_bytes(), sizeof(number));
  joined->reply.values.CopyTo({reinterpret_cast<uint8_t*>(&number), sizeof(number)});
  EXPECT_EQ(number, -1);
}

TEST(ShardHostCollectivesTest, WhoWaitsIsAnsweredWhenTheHostEnds) {
  auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/2);
  const auto result = Send(*host, SumRequest(0, {1}));
  host.reset();
  ASSERT_EQ(result->replies, 1);
  EXPECT_TRUE(absl::IsUnavailable(result->reply.status)) << result->reply.status;
}

}  // namespace
}  // namespace capstan
