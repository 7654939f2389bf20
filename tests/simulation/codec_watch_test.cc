#include "tests/simulation/codec_watch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/codec/codec.h"
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
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    delivered();
    done(reply_);
  }

 private:
  const ExchangeReply& reply_;
};

class CodecWatchTest : public testing::Test {
 protected:
  void Exchange(ExchangeRequest request) {
    request.sender.worker = WorkerId(2);
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
  CodecWatchEndpoint endpoint_{{/*own_arrays=*/2, {MakeCodec("topk:1").value()}, /*is_bsp=*/false},
                               &watch_,
                               std::make_unique<OneReplyServer>(&reply_)};
};

TEST_F(CodecWatchTest, OneVersionWithTwoValuesIsFound) {
  PullOf(/*version=*/3, 1.0f);
  PullOf(/*version=*/3, 1.0f);
  PullOf(/*version=*/4, 2.0f);
  EXPECT_EQ(watch_.wrong_values, "");
  PullOf(/*version=*/3, 2.0f);
  EXPECT_EQ(watch_.wrong_values,
            "one encoding a version: worker 2 got another one of version 3 of slice 1 of table 0 "
            "than an answer before");
}

TEST_F(CodecWatchTest, OneVersionWithTwoCopiesIsFound) {
  // Bytes of the new value of element 1, or of what is added to it.
  const auto one_element = [](float value) {
    std::vector<float> words = {0, value};
    const uint32_t index = 1;
    std::memcpy(words.data(), &index, sizeof(index));
    return Floats(words);
  };
  const auto answer = [this](CodecType codec, uint64_t version, Payload values) {
    reply_.codec = codec;
    reply_.version = version;
    ++reply_.copy;
    reply_.values = std::move(values);
    Exchange(ExchangeRequest());
  };
  answer(CodecType::kFloat32, 3, Floats({1, 2, 3}));
  answer(CodecType::kTopkFloat32, 4, one_element(10));
  EXPECT_TRUE(watch_.copies.empty()) << "both may lack something";
  answer(CodecType::kChanged, 5, one_element(4));
  EXPECT_EQ(watch_.copies.at({{TableId(0), SliceIndex(1)}, 5}), (std::vector<float>{1, 4, 3}));
  answer(CodecType::kTopkFloat32, 6, one_element(1));
  answer(CodecType::kChanged, 7, Floats({}));
  EXPECT_EQ(watch_.copies.at({{TableId(0), SliceIndex(1)}, 7}), (std::vector<float>{1, 5, 3}));
  answer(CodecType::kFloat32, 5, Floats({1, 4, 9}));
  EXPECT_EQ(watch_.wrong_values, "");
  answer(CodecType::kChanged, 5, Floats({}));
  EXPECT_EQ(watch_.wrong_values,
            "one copy a version: worker 2 got another one of version 5 of slice 1 of table 0 than "
            "an answer before");
}

TEST_F(CodecWatchTest, TheFinalResidualIsTheLastArrayOfTheOwnState) {
  ExchangeRequest request;
  request.purpose = WorkerState{1, Floats({1, 2, 3, 4})};
  Exchange(request);
  EXPECT_TRUE(watch_.residuals.empty()) << "not the final one";
  std::get<WorkerState>(request.purpose).cut = kFinalCut;
  Exchange(request);
  ASSERT_EQ(watch_.residuals.size(), 1u);
  EXPECT_EQ(watch_.residuals[0].worker, WorkerId(2));
  EXPECT_EQ(watch_.residuals[0].values, (std::vector<float>{3, 4}));
}

}  // namespace
}  // namespace capstan
