#include "tests/transport/faulty_endpoint.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/base/fake_clock.h"

namespace capstan {
namespace {

// Answers everything at once, and counts it.
class CountingEndpoint : public ParameterEndpoint {
 public:
  explicit CountingEndpoint(int* arrived) : arrived_(arrived) {}
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    ++*arrived_;
    delivered();
    done(ExchangeReply());
  }

 private:
  int* const arrived_;
};

class FaultyEndpointTest : public testing::Test {
 protected:
  // The results of `count` exchanges under these faults.
  struct Outcome {
    int arrived = 0, delivered = 0, answered = 0, lost = 0;
    FaultyEndpoint::Counts faults;
  };
  Outcome Run(FaultyEndpoint::Options options, int count, bool advance = true) {
    Outcome outcome;
    options.clock = &clock_;
    options.seed = 3;
    {
      FaultyEndpoint endpoint(options, std::make_unique<CountingEndpoint>(&outcome.arrived));
      for (int i = 0; i < count; ++i) {
        endpoint.Exchange(
            {}, [&] { ++outcome.delivered; },
            [&](ExchangeReply reply) {
              ++outcome.answered;
              outcome.lost += absl::IsUnavailable(reply.status);
            });
      }
      if (advance) clock_.Advance(absl::Seconds(1));
      outcome.faults = endpoint.counts();
    }
    return outcome;
  }

  FakeClock clock_;
};

TEST_F(FaultyEndpointTest, WithoutFaultsEverythingPasses) {
  const Outcome outcome = Run({}, 1000);
  EXPECT_EQ(outcome.arrived, 1000);
  EXPECT_EQ(outcome.answered, 1000);
  EXPECT_EQ(outcome.lost, 0);
}

TEST_F(FaultyEndpointTest, DropsLoseTheRequestOrItsReplyAndSaySo) {
  FaultyEndpoint::Options options;
  options.drop = 0.2;
  const Outcome outcome = Run(options, 10'000);
  EXPECT_NEAR(outcome.lost, 2000, 200);
  EXPECT_EQ(outcome.lost, outcome.faults.dropped_requests + outcome.faults.dropped_replies);
  EXPECT_EQ(outcome.arrived, 10'000 - outcome.faults.dropped_requests);
  EXPECT_NEAR(outcome.faults.dropped_requests, 1000, 150);
  EXPECT_EQ(outcome.answered, 10'000);
  EXPECT_EQ(outcome.delivered, 10'000);
}

TEST_F(FaultyEndpointTest, DuplicatesArriveTwiceAndAreAnsweredOnce) {
  FaultyEndpoint::Options options;
  options.duplicate = 0.3;
  const Outcome outcome = Run(options, 10'000);
  EXPECT_EQ(outcome.arrived, 10'000 + outcome.faults.duplicated);
  EXPECT_NEAR(outcome.faults.duplicated, 3000, 250);
  EXPECT_EQ(outcome.answered, 10'000);
}

TEST_F(FaultyEndpointTest, DelayedOnesArriveLaterAndAreUnavailableWhenItEndsBefore) {
  FaultyEndpoint::Options options;
  options.delay = 1;
  EXPECT_EQ(Run(options, 100).lost, 0);
  const Outcome cut_off = Run(options, 100, /*advance=*/false);
  EXPECT_EQ(cut_off.arrived, 0);
  EXPECT_EQ(cut_off.lost, 100);
  EXPECT_EQ(cut_off.delivered, 100);
}

}  // namespace
}  // namespace capstan
