#include "common/transport/fallback_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace capstan {
namespace {

// Answers every exchange with the same status.
class FixedEndpoint : public ParameterEndpoint {
 public:
  FixedEndpoint(absl::Status status, int* calls) : status_(std::move(status)), calls_(calls) {}
  void Exchange(ExchangeRequest /*request*/, SentCallback sent, ReplyCallback done) override {
    ++*calls_;
    sent();
    done(ErrorReply(status_));
  }

 private:
  const absl::Status status_;
  int* const calls_;
};

// Counts which way exchanges go, and says how each ends.
struct TwoWays {
  explicit TwoWays(const absl::Status& first)
      : endpoint(std::make_unique<FixedEndpoint>(first, &first_calls),
                 std::make_unique<FixedEndpoint>(absl::OkStatus(), &second_calls)) {}

  absl::Status Exchange() {
    absl::Status status;
    endpoint.Exchange(
        ExchangeRequest(), [] {}, [&status](ExchangeReply reply) { status = reply.status; });
    return status;
  }

  int first_calls = 0;
  int second_calls = 0;
  FallbackEndpoint endpoint;
};

TEST(FallbackEndpointTest, ExchangesGoTheFirstWayWhereThereIsOne) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::UnavailableError("the server ended")}) {
    TwoWays ways(status);
    EXPECT_EQ(ways.Exchange(), status);
    EXPECT_EQ(ways.Exchange(), status);
    EXPECT_EQ(ways.first_calls, 2);
    EXPECT_EQ(ways.second_calls, 0);
  }
}

TEST(FallbackEndpointTest, WhatFindsNoFirstWayIsToBeTriedAgainAndGoesTheSecond) {
  TwoWays ways(absl::UnimplementedError("UCX does not get there"));
  EXPECT_EQ(ways.Exchange(), absl::UnavailableError("UCX does not get there"));
  EXPECT_EQ(ways.Exchange(), absl::OkStatus());
  EXPECT_EQ(ways.first_calls, 1);
  EXPECT_EQ(ways.second_calls, 1);
}

}  // namespace
}  // namespace capstan
