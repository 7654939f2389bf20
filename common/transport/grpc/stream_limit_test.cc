#include "common/transport/grpc/stream_limit.h"

#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

TEST(StreamLimitTest, RefusesWithAReasonUntilAPlaceIsGivenBack) {
  StreamLimit limit(2);
  StreamLimit::Place first = limit.Take().value();
  const StreamLimit::Place second = limit.Take().value();
  for (int i = 0; i < 3; ++i) {
    const auto refused = limit.Take();
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
    EXPECT_NE(std::string(refused.status().message()).find("2 streams"), std::string::npos)
        << refused.status();
  }
  first.reset();
  const StreamLimit::Place third = limit.Take().value();
  EXPECT_FALSE(limit.Take().ok());
}

}  // namespace
}  // namespace capstan
