#include "common/transport/eager_endpoint.h"

#include <gtest/gtest.h>

#include <cstddef>
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

  Answer Push(int64_t step, uint32_t slice = 0) { return Send(Step(step), std::nullopt, slice); }
  Answer Pull(int64_t step, uint32_t slice = 0) { return Send(std::nullopt, Step(step), slice); }

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

  // The question number `index` of those that are open is answered; without values of that pull
  // step.
  void Reply(uint64_t version, int64_t min_step, std::optional<Step> pull_step, size_t index = 0) {
    ExchangeReply reply;
    reply.version = version;
    reply.min_step = Step(min_step);
    if (pull_step.has_value()) {
      const auto values = std::make_shared<const float>(static_cast<float>(version));
      reply.values = Payload({values.get(), 1}, values);
      reply.pull_step = *pull_step;
    }
    Answered(index)(std::move(reply));
  }

  void Fail(absl::Status status, size_t index = 0) { Answered(index)(ErrorReply(status)); }

  ParameterEndpoint::ReplyCallback Answered(size_t index) {
    PatientServer::Asked asked = std::move(asked_.at(index));
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(index));
    return std::move(asked.done);
  }

  bool IsRefresh(size_t index, int64_t pull_step, Step after) const {
    const ExchangeRequest& request = asked_.at(index).request;
    return !request.push_step.has_value() && !request.may_skip_pull &&
           request.pull_step == Step(pull_step) && request.refresh_after == after;
  }

  FakeClock clock_;
  EagerEndpoint::Shared shared_;
  std::vector<PatientServer::Asked> asked_;
  std::unique_ptr<EagerEndpoint> endpoint_;
};

TEST_F(EagerEndpointTest, APushBringsTheValuesOfTheNextPull) {
  const absl::Time asked = clock_.Now();
  const Answer push = Push(4);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].request.push_step, Step(4));
  EXPECT_EQ(asked_[0].request.pull_step, Step(5));
  EXPECT_TRUE(asked_[0].request.may_skip_pull);
  clock_.Advance(absl::Milliseconds(1));
  Reply(/*version=*/10, /*min_step=*/3, Step(5));
  ASSERT_TRUE(push->has_value());
  EXPECT_EQ((*push)->version, 10u);
  EXPECT_TRUE((*push)->values.empty()) << "it was no pull";
  EXPECT_FALSE((*push)->asked_at.has_value());

  const Answer pull = Pull(5);
  ASSERT_TRUE(pull->has_value()) << "at once";
  EXPECT_EQ((*pull)->version, 10u);
  EXPECT_EQ((*pull)->min_step, Step(3));
  EXPECT_EQ((*pull)->values.size_bytes(), sizeof(float));
  EXPECT_EQ((*pull)->asked_at, asked);
  EXPECT_EQ((*pull)->waited_for, CacheWait::kNothing);
  EXPECT_EQ(shared_.refreshed_bytes, sizeof(float));
}

TEST_F(EagerEndpointTest, APullGetsTheNewestValuesThatHaveCome) {
  Push(4);
  Reply(10, 3, Step(5));
  ASSERT_EQ(asked_.size(), 1u) << "newer values are asked for";
  EXPECT_TRUE(IsRefresh(0, 5, Step(3)));
  const absl::Time refresh_asked = clock_.Now();
  clock_.Advance(absl::Milliseconds(1));
  Reply(12, 4, Step(5));
  EXPECT_TRUE(IsRefresh(0, 5, Step(4))) << "and again";
  EXPECT_EQ(shared_.refreshed_bytes, 2 * sizeof(float));
  const Answer pull = Pull(5);
  ASSERT_TRUE(pull->has_value());
  EXPECT_EQ((*pull)->version, 12u);
  EXPECT_EQ((*pull)->asked_at, refresh_asked);
}

TEST_F(EagerEndpointTest, APullWaitsForItsPush) {
  Push(4);
  const Answer pull = Pull(5);
  EXPECT_FALSE(pull->has_value());
  EXPECT_EQ(asked_.size(), 1u) << "the push will tell";
  Reply(10, 3, Step(5));
  ASSERT_TRUE(pull->has_value());
  EXPECT_EQ((*pull)->version, 10u);
  EXPECT_EQ((*pull)->waited_for, CacheWait::kOwnPush);
  EXPECT_TRUE(asked_.empty()) << "nobody needs newer values";
}

TEST_F(EagerEndpointTest, APullWaitsForTheOtherWorkers) {
  Push(4);
  const Answer pull = Pull(5);
  Reply(10, 0, /*pull_step=*/std::nullopt);
  EXPECT_FALSE(pull->has_value());
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_TRUE(IsRefresh(0, 5, kNoValues)) << "whatever lets it out";
  Reply(11, 3, Step(5));
  ASSERT_TRUE(pull->has_value());
  EXPECT_EQ((*pull)->version, 11u);
  EXPECT_EQ((*pull)->waited_for, CacheWait::kOtherWorkers);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(EagerEndpointTest, ARefreshOutlivesAPushButItsOlderValuesDoNot) {
  Push(4);
  Reply(10, 3, Step(5));
  Pull(5);
  const Answer push = Push(5);
  ASSERT_EQ(asked_.size(), 2u) << "the refresh and the push";
  Reply(11, 4, Step(5), /*index=*/0);
  EXPECT_EQ(asked_.size(), 1u) << "the push will bring newer ones";
  const Answer pull = Pull(6);
  EXPECT_FALSE(pull->has_value()) << "they lack the push";
  Reply(12, 4, Step(6));
  EXPECT_TRUE(push->has_value());
  ASSERT_TRUE(pull->has_value());
  EXPECT_EQ((*pull)->version, 12u);
}

TEST_F(EagerEndpointTest, ARefreshFromBeforeAPushMayBringWhatFollowsIt) {
  Push(4);
  Reply(10, 3, Step(5));
  Pull(5);
  Push(5);
  Reply(11, 3, /*pull_step=*/std::nullopt, /*index=*/1);
  EXPECT_EQ(asked_.size(), 1u) << "one refresh of a slice is enough";
  const Answer pull = Pull(6);
  EXPECT_FALSE(pull->has_value());
  Reply(13, 4, Step(6));
  ASSERT_TRUE(pull->has_value());
  EXPECT_EQ((*pull)->version, 13u);
  EXPECT_EQ((*pull)->waited_for, CacheWait::kOtherWorkers);
}

TEST_F(EagerEndpointTest, ARefreshOfAnOlderPullIsFollowedByOneOfTheNext) {
  Push(4);
  Reply(10, 3, Step(5));
  Pull(5);
  Push(5);
  Reply(11, 3, /*pull_step=*/std::nullopt, /*index=*/1);
  const Answer pull = Pull(6);
  Reply(12, 4, Step(5));
  EXPECT_FALSE(pull->has_value()) << "it had been answered before the push came";
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_TRUE(IsRefresh(0, 6, kNoValues));
  Reply(13, 5, Step(6));
  EXPECT_TRUE(pull->has_value());
}

TEST_F(EagerEndpointTest, ValuesThatWereOvertakenAreNotKept) {
  Push(4);
  Reply(10, 3, Step(5));
  Pull(5);
  Push(5);
  // The refresh, answered after the push, is here before it.
  Reply(13, 5, Step(6), /*index=*/0);
  Reply(12, 4, Step(6));
  const Answer pull = Pull(6);
  ASSERT_TRUE(pull->has_value());
  EXPECT_EQ((*pull)->version, 13u);
}

TEST_F(EagerEndpointTest, WhatWasUsedIsNotKeptNewAndNotAnsweredAgain) {
  Push(4);
  Reply(10, 3, Step(5));
  Pull(5);
  Reply(12, 4, Step(5));
  EXPECT_TRUE(asked_.empty());
  const Answer again = Pull(5);
  EXPECT_FALSE(again->has_value()) << "the server is asked";
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_FALSE(asked_[0].request.refresh_after.has_value());
}

TEST_F(EagerEndpointTest, WhoIsAmongTheSlowestNeedsNoNewerValues) {
  Push(4);
  Reply(10, /*min_step=*/5, Step(5));
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ((*Pull(5))->version, 10u);
}

TEST_F(EagerEndpointTest, SlicesAndStepsAreKeptApart) {
  Push(4, /*slice=*/0);
  Reply(10, 5, Step(5));
  EXPECT_FALSE(Pull(5, /*slice=*/1)->has_value());
  EXPECT_FALSE(Pull(6, /*slice=*/0)->has_value());
  EXPECT_EQ(asked_.size(), 2u) << "the server is asked";
  EXPECT_TRUE(Pull(5, /*slice=*/0)->has_value());
}

TEST_F(EagerEndpointTest, APushWithAPullIsTheServers) {
  const Answer both = Send(Step(4), Step(5));
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_FALSE(asked_[0].request.may_skip_pull);
  Reply(10, 3, Step(5));
  EXPECT_EQ((*both)->values.size_bytes(), sizeof(float));
  EXPECT_TRUE(asked_.empty());
  EXPECT_FALSE(Pull(5)->has_value()) << "nothing was kept";
}

TEST_F(EagerEndpointTest, WhoeverPushesOnAsksTheServerForWhatWaited) {
  Push(4);
  const Answer pull = Pull(5);
  Push(5);
  ASSERT_EQ(asked_.size(), 3u);
  EXPECT_EQ(asked_[1].request.pull_step, Step(5));
  EXPECT_FALSE(asked_[1].request.push_step.has_value());
  Reply(10, 3, Step(5), /*index=*/1);
  EXPECT_TRUE(pull->has_value());
}

TEST_F(EagerEndpointTest, WhatFailsEndsWhoWaitsForIt) {
  const Answer push = Push(4);
  const Answer pull = Pull(5);
  Fail(absl::InvalidArgumentError("NaN"));
  EXPECT_TRUE(absl::IsInvalidArgument((*push)->status));
  ASSERT_TRUE(pull->has_value());
  EXPECT_TRUE(absl::IsInvalidArgument((*pull)->status));
  Pull(5);
  EXPECT_EQ(asked_.size(), 1u) << "the server says what is wrong";
}

TEST_F(EagerEndpointTest, ARefreshThatFailsIsAskedForAgainByThePull) {
  Push(4);
  Reply(10, 0, /*pull_step=*/std::nullopt);
  const Answer waiting = Pull(5);
  Fail(absl::UnavailableError("lost"));
  ASSERT_TRUE(waiting->has_value());
  EXPECT_TRUE(absl::IsUnavailable((*waiting)->status));
  EXPECT_TRUE(asked_.empty());
  const Answer again = Pull(5);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_TRUE(IsRefresh(0, 5, kNoValues));
  Reply(11, 3, Step(5));
  EXPECT_TRUE((*again)->status.ok());
}

TEST_F(EagerEndpointTest, ItsEndAnswersWhatIsOpen) {
  Push(4);
  Reply(10, 3, Step(5));
  Pull(5);
  const Answer push = Push(5);
  const Answer pull = Pull(6);
  ASSERT_EQ(asked_.size(), 2u) << "a refresh, too";
  endpoint_.reset();
  EXPECT_TRUE(absl::IsUnavailable((*push)->status));
  ASSERT_TRUE(pull->has_value());
  EXPECT_TRUE(absl::IsUnavailable((*pull)->status));
}

TEST_F(EagerEndpointTest, ItsEndAnswersWhoWaitsForOthers) {
  Push(4);
  Reply(10, 0, /*pull_step=*/std::nullopt);
  const Answer pull = Pull(5);
  endpoint_.reset();
  ASSERT_TRUE(pull->has_value());
  EXPECT_TRUE(absl::IsUnavailable((*pull)->status));
}

}  // namespace
}  // namespace capstan
