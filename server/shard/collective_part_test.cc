#include "server/shard/collective_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/exchange/payload.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr WorkerId kSender(3);
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

// With a payload of so many zeros.
Collective Part(CollectiveType type, std::vector<uint64_t> shape, size_t bytes) {
  Collective part;
  part.type = type;
  part.dtype = CollectiveDtype::kFloat64;
  part.shape = std::move(shape);
  const auto memory = std::make_shared<std::vector<uint8_t>>(bytes);
  part.values = Payload(memory);
  part.values.Append(*memory);
  return part;
}

std::string RefusalOf(const Collective& part) {
  const absl::Status status = CheckPart(kSender, part);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(CollectivePartTest, PartsWithTheBytesOfTheirShapeAreRight) {
  EXPECT_EQ(CheckPart(kSender, Part(CollectiveType::kSum, {2, 3}, 48)), absl::OkStatus());
  EXPECT_EQ(CheckPart(kSender, Part(CollectiveType::kSum, {}, 8)), absl::OkStatus());
  EXPECT_EQ(CheckPart(kSender, Part(CollectiveType::kSum, {0, kMost}, 0)), absl::OkStatus());
  for (const CollectiveType type :
       {CollectiveType::kBarrier, CollectiveType::kJoin, CollectiveType::kEndOfStep}) {
    EXPECT_EQ(CheckPart(kSender, Part(type, {}, 0)), absl::OkStatus());
  }
  Collective broadcast = Part(CollectiveType::kBroadcast, {2, 3}, 48);
  broadcast.root = kSender;
  EXPECT_EQ(CheckPart(kSender, broadcast), absl::OkStatus());
  broadcast.values.Clear();
  EXPECT_THAT(RefusalOf(broadcast),
              HasSubstr("expected 48 bytes for a broadcast of 2x3 float64 from worker 3, got 0"));
  broadcast.root = WorkerId(0);
  EXPECT_EQ(CheckPart(kSender, broadcast), absl::OkStatus()) << "only the root sends values";
}

TEST(CollectivePartTest, HostileShapesAreRefused) {
  const auto refusal = [](std::vector<uint64_t> shape) {
    return RefusalOf(Part(CollectiveType::kSum, std::move(shape), 8));
  };
  EXPECT_THAT(refusal({2}), HasSubstr("expected 16 bytes for the sum of 2 float64, got 8"));
  EXPECT_THAT(refusal({kMost / 8, 0}), HasSubstr("expected 0 bytes for"));
  EXPECT_THAT(refusal({kMaxCollectiveBytes}), HasSubstr("expected at most 131072 elements, 1 MiB"));
  EXPECT_THAT(refusal({kMost / 4}), HasSubstr("expected at most 131072 elements, 1 MiB"));
  // As many bytes as were sent, if the product wrapped.
  EXPECT_THAT(refusal({(uint64_t{1} << 61) + 1}), HasSubstr("expected at most 131072 elements"));
  EXPECT_THAT(refusal({uint64_t{1} << 32, uint64_t{1} << 32}),
              HasSubstr("at most 131072 elements"));
  EXPECT_EQ(refusal(std::vector<uint64_t>(1'000'000, 1)),
            "expected at most 64 dimensions, got 1000000");
  EXPECT_EQ(RefusalOf(Part(CollectiveType::kBarrier, std::vector<uint64_t>(99, kMost), 0)),
            "expected no shape of a barrier, got 99 dimensions");
}

TEST(CollectivePartTest, WhatStandsForNothingIsRefused) {
  EXPECT_THAT(RefusalOf(Part(static_cast<CollectiveType>(77), {1}, 8)),
              HasSubstr("unknown type 77"));
  Collective part = Part(CollectiveType::kSum, {1}, 8);
  part.dtype = static_cast<CollectiveDtype>(9);
  EXPECT_THAT(RefusalOf(part), HasSubstr("expected float32, float64 or int64, got type 9"));
  part = Part(CollectiveType::kMean, {1}, 8);
  part.dtype = CollectiveDtype::kInt64;
  EXPECT_THAT(RefusalOf(part), HasSubstr("expected floats for a mean"));
  part = Part(CollectiveType::kBarrier, {}, 0);
  part.step = Step(-1);
  EXPECT_THAT(RefusalOf(part), HasSubstr("from 0 on, got -1"));
}

TEST(CollectivePartTest, EachPartIsNamed) {
  EXPECT_EQ(Describe(Part(CollectiveType::kMean, {2, 3}, 0)), "the mean of 2x3 float64");
  EXPECT_EQ(Describe(Part(CollectiveType::kMin, {3}, 0)), "the minimum of 3 float64");
  EXPECT_EQ(Describe(Part(CollectiveType::kBroadcast, {}, 0)),
            "a broadcast of a scalar of float64 from worker 0");
  EXPECT_EQ(Describe(Part(CollectiveType::kJoin, {}, 0)), "a join");
  Collective part;
  part.step = Step(5);
  part.number = 2;
  EXPECT_EQ(WhichOf(part), "operation 2 of step 5");
}

}  // namespace
}  // namespace capstan
