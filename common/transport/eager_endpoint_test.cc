#include "common/transport/eager_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"

namespace capstan {
namespace {

// Keeps what it is asked until the test, or its end, answers.
class PatientServer : public ParameterEndpoint {
 public:
  struct Asked {
    ExchangeRequest request;
    ReplyCallback done;
  };

  explicit PatientServer(std::vector<Asked>* asked) : asked_(*asked) {}
  ~PatientServer() override {
    std::vector<Asked> open;
    open.swap(asked_);
    for (Asked& asked : open) asked.done(ErrorReply(absl::UnavailableError("closed")));
  }
  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    sent();
    asked_.push_back({std::move(request), std::move(done)});
  }

 private:
  std::vector<Asked>& asked_;
};

class EagerEndpointTest : public testing::Test {
 protected:
  using Answer = std::shared_ptr<std::optional<ExchangeReply>>;

  EagerEndpointTest() {
    shared_.clock = &clock_;
    endpoint_ = std::make_unique<EagerEndpoint>(&shared_, std::make_unique<PatientServer>(&asked_));
  }

  Answer Send(std::optional<Step> push_step, std::optional<Step> pull_step, uint32_t slice = 0) {
    ExchangeRequest request;
    request.slice = {TableId(1), SliceIndex(slice)};
    request.push_step = push_step;
    request.pull_step = pull_step;
    auto answer = std::make_shared<std::optional<ExchangeReply>>();
    endpoint_->Exchange(
        std::move(request), [] {}, [answer](ExchangeReply reply) { *answer = std::move(reply); });
    return answer;
  }

  // The oldest question that is open is answered.
  void Reply(uint64_t version, int64_t min_step) {
    PatientServer::Asked asked = std::move(asked_.front());
    asked_.erase(asked_.begin());
    ExchangeReply reply;
    reply.version = version;
    reply.min_step = Step(min_step);
    const auto values = std::make_shared<const float>(static_cast<float>(version));
    reply.values = Payload({values.get(), 1}, values);
    asked.done(std::move(reply));
  }

  FakeClock clock_;
  EagerEndpoint::Shared shared_;
  std::vector<PatientServer::Asked> asked_;
  std::unique_ptr<EagerEndpoint> endpoint_;
};

TEST_F(EagerEndpointTest, APullThatIsRepeatedGetsTheNewestValuesThatHaveCome) {
  const absl::Time first_asked = clock_.Now();
  const Answer first = Send(Step(4), Step(5));
  clock_.Advance(absl::Milliseconds(1));
  const absl::Time refresh_asked = clock_.Now();
  Reply(/*version=*/10, /*min_step=*/3);
  ASSERT_TRUE(first->has_value());
  EXPECT_FALSE((*first)->asked_at.has_value()) << "it came from the server";
  EXPECT_LT(first_asked, refresh_asked);

  ASSERT_EQ(asked_.size(), 1u) << "newer values are asked for";
  EXPECT_FALSE(asked_[0].request.push_step.has_value());
  EXPECT_EQ(asked_[0].request.pull_step, Step(5));
  EXPECT_EQ(asked_[0].request.refresh_after, Step(3));
  Reply(/*version=*/12, /*min_step=*/4);
  EXPECT_EQ(asked_.at(0).request.refresh_after, Step(4)) << "and again";
  EXPECT_EQ(shared_.refreshed_bytes, sizeof(float));

  const Answer again = Send(std::nullopt, Step(5));
  ASSERT_TRUE(again->has_value()) << "at once";
  EXPECT_EQ((*again)->version, 12u);
  EXPECT_EQ((*again)->min_step, Step(4));
  EXPECT_EQ((*again)->asked_at, refresh_asked);
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(EagerEndpointTest, WithoutNewerValuesARepeatedPullGetsThoseOfTheFirst) {
  const absl::Time asked = clock_.Now();
  Send(Step(4), Step(5));
  Reply(10, 3);
  clock_.Advance(absl::Milliseconds(1));
  const Answer again = Send(std::nullopt, Step(5));
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ((*again)->version, 10u);
  EXPECT_EQ((*again)->asked_at, asked);
}

TEST_F(EagerEndpointTest, WhatWasUsedIsNotAnsweredAgain) {
  Send(Step(4), Step(5));
  Reply(10, 3);
  Send(std::nullopt, Step(5));
  Reply(12, 4);
  const Answer third = Send(std::nullopt, Step(5));
  EXPECT_FALSE(third->has_value()) << "the server is asked";
  ASSERT_EQ(asked_.size(), 1u) << "and nobody waits for newer values of what was used";
  EXPECT_FALSE(asked_[0].request.refresh_after.has_value());
}

TEST_F(EagerEndpointTest, AfterAPushTheServerIsAsked) {
  Send(Step(4), Step(5));
  Reply(10, 3);
  const Answer push = Send(Step(5), std::nullopt);
  EXPECT_FALSE(Send(std::nullopt, Step(5))->has_value()) << "it lacks the push";
  EXPECT_FALSE(push->has_value());
}

TEST_F(EagerEndpointTest, ARefreshThatComesAfterALaterPullIsForgotten) {
  Send(Step(4), Step(5));
  Reply(10, 3);
  Send(Step(5), Step(6));
  ASSERT_EQ(asked_.size(), 2u);
  std::swap(asked_[0], asked_[1]);
  Reply(/*version=*/13, /*min_step=*/4);
  Reply(/*version=*/12, /*min_step=*/4);
  EXPECT_EQ(asked_.size(), 1u) << "only the later pull is kept new";
  EXPECT_EQ((*Send(std::nullopt, Step(6)))->version, 13u) << "values do not go back";
}

TEST_F(EagerEndpointTest, WhoIsAmongTheSlowestNeedsNoNewerValues) {
  Send(Step(4), Step(5));
  Reply(10, /*min_step=*/5);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ((*Send(std::nullopt, Step(5)))->version, 10u);
}

TEST_F(EagerEndpointTest, SlicesAndStepsAreKeptApart) {
  Send(Step(4), Step(5), /*slice=*/0);
  Reply(10, 5);
  EXPECT_FALSE(Send(std::nullopt, Step(5), /*slice=*/1)->has_value());
  EXPECT_FALSE(Send(std::nullopt, Step(6), /*slice=*/0)->has_value());
}

TEST_F(EagerEndpointTest, WhatFailsIsNotKept) {
  const Answer failed = Send(Step(4), Step(5));
  asked_[0].done(ErrorReply(absl::InvalidArgumentError("NaN")));
  asked_.clear();
  EXPECT_TRUE(absl::IsInvalidArgument((*failed)->status));
  EXPECT_FALSE(Send(std::nullopt, Step(5))->has_value());
}

TEST_F(EagerEndpointTest, ItsEndAnswersWhatIsOpen) {
  Send(Step(4), Step(5));
  Reply(10, 3);
  const Answer open = Send(Step(5), Step(6));
  ASSERT_EQ(asked_.size(), 2u) << "a refresh, too";
  endpoint_.reset();
  EXPECT_TRUE(absl::IsUnavailable((*open)->status));
}

}  // namespace
}  // namespace capstan
