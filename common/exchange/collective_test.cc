#include "common/exchange/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

TEST(CollectiveTest, ElementsAreTheProductOfTheSizes) {
  EXPECT_EQ(NumElements({}), 1u) << "a scalar";
  EXPECT_EQ(NumElements({3}), 3u);
  EXPECT_EQ(NumElements({2, 3, 1}), 6u);
  EXPECT_EQ(NumElements({0}), 0u);
}

TEST(CollectiveTest, ElementsOfHostileShapesAreBounded) {
  EXPECT_EQ(NumElements({kMost}), kMost);
  EXPECT_EQ(NumElements({uint64_t{1} << 32, uint64_t{1} << 32}), kMost) << "the product is 2^64";
  EXPECT_EQ(NumElements({uint64_t{1} << 63, 3}), kMost);
  EXPECT_EQ(NumElements({kMost, kMost, 0}), 0u);
  EXPECT_EQ(NumElements({0, kMost, kMost}), 0u);
}

TEST(CollectiveTest, OneMebibyteOfEachTypeFits) {
  const auto most = CollectiveDtype::kFloat32;
  EXPECT_EQ(CheckElements({512, 512}, most), absl::OkStatus());
  EXPECT_EQ(CheckElements({}, most), absl::OkStatus());
  EXPECT_EQ(CheckElements({kMost, 0}, most), absl::OkStatus());
  EXPECT_EQ(CheckElements({512, 513}, most),
            absl::InvalidArgumentError("expected at most 262144 elements, 1 MiB, got 512x513: "
                                       "larger tensors belong into tables"));
  for (const CollectiveDtype dtype : {CollectiveDtype::kFloat64, CollectiveDtype::kInt64}) {
    EXPECT_EQ(CheckElements({131072}, dtype), absl::OkStatus());
    EXPECT_THAT(std::string(CheckElements({131073}, dtype).message()),
                HasSubstr("at most 131072 elements, 1 MiB, got 131073"));
    EXPECT_TRUE(absl::IsInvalidArgument(CheckElements({uint64_t{1} << 61, 8}, dtype)));
  }
  EXPECT_EQ(CheckElements({1}, static_cast<CollectiveDtype>(9)),
            absl::InvalidArgumentError("expected float32, float64 or int64, got type 9"));
}

TEST(CollectiveTest, AShapeHasAtMost64Dimensions) {
  EXPECT_EQ(CheckElements(std::vector<uint64_t>(64, 1), CollectiveDtype::kInt64), absl::OkStatus());
  EXPECT_EQ(CheckElements(std::vector<uint64_t>(65, 0), CollectiveDtype::kInt64),
            absl::InvalidArgumentError("expected at most 64 dimensions, got 65"));
}

TEST(CollectiveTest, ElementsAreNamedByTheirShape) {
  EXPECT_EQ(ElementsText({2, 3}, CollectiveDtype::kFloat32), "2x3 float32");
  EXPECT_EQ(ElementsText({3}, CollectiveDtype::kFloat64), "3 float64");
  EXPECT_EQ(ElementsText({}, CollectiveDtype::kInt64), "a scalar of int64");
}

}  // namespace
}  // namespace capstan
