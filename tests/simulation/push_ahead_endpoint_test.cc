#include "tests/simulation/push_ahead_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/exchange/request_parts.h"
#include "common/tensor/host_buffer.h"

namespace capstan {
namespace {

// Answers each exchange at once; the value of a pull is its step.
class EchoServer : public ParameterEndpoint {
 public:
  explicit EchoServer(std::vector<ExchangeRequest>* requests) : requests_(*requests) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    if (PullOf(request) != nullptr) {
      const auto values = std::make_shared<HostBuffer>(1);
      values->span()[0] = static_cast<float>(PullOf(request)->step.value());
      reply.values = Payload(values->span(), values);
      reply.codec = CodecType::kInt8;
    }
    if (has_failed) reply.status = absl::UnavailableError("lost");
    requests_.push_back(std::move(request));
    done(std::move(reply));
  }

  bool has_failed = false;

 private:
  std::vector<ExchangeRequest>& requests_;
};

class PushAheadEndpointTest : public testing::Test {
 protected:
  static ExchangeRequest Request(std::optional<Step> push, Step pull, uint32_t slice) {
    ExchangeRequest request;
    request.slice = {TableId(0), SliceIndex(slice)};
    request.purpose = MakeDenseStep(push, pull);
    return request;
  }
  // The value in the exchange's reply; none: the reply is an error.
  std::optional<float> Exchange(std::optional<Step> push, Step pull, uint32_t slice = 0) {
    std::optional<float> value;
    int delivered = 0;
    endpoint_.Exchange(
        Request(push, pull, slice), [&] { ++delivered; },
        [&](ExchangeReply reply) {
          EXPECT_EQ(delivered, 1);
          if (!reply.status.ok()) return;
          EXPECT_EQ(reply.codec, CodecType::kInt8) << "that of the values";
          reply.values.CopyTo(absl::MakeSpan(&value.emplace(), 1));
        });
    return value;
  }

  std::vector<ExchangeRequest> requests_;  // at the server
  EchoServer* const server_ = new EchoServer(&requests_);
  PushAheadEndpoint endpoint_{/*steps=*/5, std::unique_ptr<ParameterEndpoint>(server_)};
};

TEST_F(PushAheadEndpointTest, EveryOtherPushGoesOutAloneAndIsAnsweredWithEarlierValues) {
  EXPECT_EQ(Exchange(std::nullopt, Step(0)), 0);
  EXPECT_EQ(Exchange(Step(0), Step(1)), 0);
  EXPECT_EQ(PushStepOf(requests_.back()), Step(0));
  EXPECT_EQ(PullStepOf(requests_.back()), std::nullopt);
  EXPECT_EQ(Exchange(Step(1), Step(2)), 2);
  EXPECT_EQ(PullStepOf(requests_.back()), Step(2));
  EXPECT_EQ(Exchange(Step(2), Step(3)), 2);
  EXPECT_EQ(PullStepOf(requests_.back()), std::nullopt);
}

TEST_F(PushAheadEndpointTest, APullAloneThatIsLeftOutDoesNotReachTheServer) {
  EXPECT_EQ(Exchange(std::nullopt, Step(0)), 0);
  EXPECT_EQ(Exchange(Step(0), Step(1)), 0);
  EXPECT_EQ(requests_.size(), 2u);
  EXPECT_EQ(Exchange(std::nullopt, Step(1)), 0);
  EXPECT_EQ(requests_.size(), 2u);
}

TEST_F(PushAheadEndpointTest, WhatHasNoEarlierValuesOrIsTheLastIsPulled) {
  EXPECT_EQ(Exchange(std::nullopt, Step(3)), 3) << "a worker that comes late";
  EXPECT_EQ(Exchange(std::nullopt, Step(3), /*slice=*/1), 3) << "another slice";
  EXPECT_EQ(Exchange(Step(4), Step(5)), 5) << "the values after the last step";
}

TEST_F(PushAheadEndpointTest, AnErrorIsPassedOn) {
  EXPECT_EQ(Exchange(std::nullopt, Step(0)), 0);
  server_->has_failed = true;
  EXPECT_EQ(Exchange(Step(0), Step(1)), std::nullopt);
  EXPECT_EQ(Exchange(Step(1), Step(2)), std::nullopt);
}

}  // namespace
}  // namespace capstan
