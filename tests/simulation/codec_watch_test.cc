#include "tests/simulation/codec_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/exchange/payload.h"

namespace capstan {
namespace {

Payload Floats(std::vector<float> values) {
  const auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return Payload(absl::MakeConstSpan(*owner), owner);
}

// Gives the same reply to every exchange.
class OneReplyServer : public ParameterEndpoint {
 public:
  explicit OneReplyServer(const ExchangeReply* reply) : reply_(*reply) {}
  void Exchange(ExchangeRequest, DeliveredCallback delivered, ReplyCallback done) override {
    delivered();
    done(reply_);
  }

 private:
  const ExchangeReply& reply_;
};

class CodecWatchTest : public testing::Test {
 protected:
  void Exchange(ExchangeRequest request) {
    request.worker = WorkerId(2);
    request.slice = {TableId(0), SliceIndex(1)};
    endpoint_.Exchange(
        std::move(request), [] {}, [](ExchangeReply) {});
  }
  void PullOf(uint64_t version, float value) {
    reply_.version = version;
    reply_.values = Floats({value});
    Exchange(ExchangeRequest());
  }

  ExchangeReply reply_;
  CodecWatch watch_;
  CodecWatchEndpoint endpoint_{/*own_arrays=*/2, &watch_,
                               std::make_unique<OneReplyServer>(&reply_)};
};

TEST_F(CodecWatchTest, OneVersionWithTwoValuesIsFound) {
  PullOf(/*version=*/3, 1.0f);
  PullOf(/*version=*/3, 1.0f);
  PullOf(/*version=*/4, 2.0f);
  EXPECT_EQ(watch_.wrong_values, "");
  PullOf(/*version=*/3, 2.0f);
  EXPECT_EQ(watch_.wrong_values,
            "one encoding a version: worker 2 got other bytes of version 3 of slice 1 of table 0 "
            "than an answer before");
}

TEST_F(CodecWatchTest, TheFinalResidualIsTheLastArrayOfTheOwnState) {
  ExchangeRequest request;
  request.gradient = Floats({1, 2, 3, 4});
  request.own_cut = 1;
  Exchange(request);
  EXPECT_TRUE(watch_.residuals.empty()) << "not the final one";
  request.own_cut = kFinalCut;
  Exchange(request);
  ASSERT_EQ(watch_.residuals.size(), 1u);
  EXPECT_EQ(watch_.residuals[0].worker, WorkerId(2));
  EXPECT_EQ(watch_.residuals[0].values, (std::vector<float>{3, 4}));
}

}  // namespace
}  // namespace capstan
