// A store whose codecs are chosen while the job runs.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/payload.h"
#include "common/exchange/request_parts.h"
#include "common/scheduler/transfer_queue.h"
#include "worker/client/parameter_store.h"

namespace capstan {
namespace {

constexpr size_t kSize = 300;

// Answers pulls with ones, encoded if the request allows it, and keeps the requests.
class OnesEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    const std::shared_ptr<const Codec> codec =
        MakeCodec(PullsFloat32(request) ? "float32" : "int8").value();
    const std::vector<float> ones(kSize, 1.0f);
    auto bytes = std::make_shared<std::vector<uint8_t>>(codec->EncodedBytes(kSize));
    EXPECT_TRUE(codec->Encode(ones, DrawKey(), {}, absl::MakeSpan(*bytes)).ok());
    ExchangeReply reply;
    reply.values = Payload(bytes);
    reply.values.Append(*bytes);
    reply.codec = codec->type();
    requests.push_back(std::move(request));
    delivered();
    done(std::move(reply));
  }

  std::vector<ExchangeRequest> requests;
};

class AutoCodecStoreTest : public testing::Test {
 protected:
  AutoCodecStoreTest() {
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = &endpoint_;
    options.scheduler = &scheduler_;
    options.slice_bytes = 1 << 20;
    v1::TableSpec& table = options.tables.emplace_back();
    table.set_name("w");
    table.add_shape(kSize);
    v1::CodecSpec spec;
    spec.set_push("auto");
    spec.set_pull("auto");
    spec.set_min_bytes(0);
    options.codecs = {CodecsOfTable(spec, "w", kSize, options.slice_bytes).value()};
    store_ = ParameterStore::Create(options).value();
  }

  // The request of that push.
  const ExchangeRequest& Push(Step step) {
    for (float& element : store_->gradients()[0]) element = 2;
    store_->PushPull(/*layer=*/0, step);
    clock_.Advance(absl::ZeroDuration());
    EXPECT_TRUE(store_->WaitForAll().ok());
    EXPECT_NEAR(store_->values()[0][kSize - 1], 1, 0.01);
    return endpoint_.requests.back();
  }

  FakeClock clock_;
  OnesEndpoint endpoint_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<FifoQueue>()};
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(AutoCodecStoreTest, ValuesAreFloat32UntilTheFirstStepOfTheChoice) {
  store_->PullAll(Step(0));
  EXPECT_TRUE(PullsFloat32(endpoint_.requests.back()));
  const ExchangeRequest& plain = Push(Step(0));
  EXPECT_EQ(CodecOf(plain), CodecType::kFloat32);
  EXPECT_EQ(PayloadBytes(plain), kSize * sizeof(float));
  EXPECT_TRUE(PullsFloat32(plain));
  EXPECT_EQ(plain.destination.size(), kSize);

  store_->UseAutoCodecs(Step(2), {TableId(0)});
  const ExchangeRequest& before = Push(Step(1));
  EXPECT_EQ(CodecOf(before), CodecType::kFloat32);
  EXPECT_FALSE(PullsFloat32(before)) << "values of step 2";
  EXPECT_TRUE(before.destination.empty());

  const ExchangeRequest& encoded = Push(Step(2));
  EXPECT_EQ(CodecOf(encoded), CodecType::kInt8);
  EXPECT_EQ(PayloadBytes(encoded), MakeCodec("int8").value()->EncodedBytes(kSize));
  EXPECT_FALSE(PullsFloat32(encoded));

  store_->PullAllExactly(Step(3));
  EXPECT_TRUE(PullsFloat32(endpoint_.requests.back()));
}

TEST_F(AutoCodecStoreTest, ATableThatWasNotChosenStaysFloat32) {
  store_->UseAutoCodecs(Step(2), {TableId(7)});  // of no table
  EXPECT_FALSE(store_->Encodes(TableId(0), Step(2)));
  EXPECT_EQ(CodecOf(Push(Step(2))), CodecType::kFloat32);
}

TEST_F(AutoCodecStoreTest, ARestoredJobBeginsWithTheChoice) {
  store_->UseAutoCodecs(Step(2), {TableId(0)});
  store_->PullAll(Step(5));
  EXPECT_FALSE(PullsFloat32(endpoint_.requests.back()));
  EXPECT_TRUE(store_->Encodes(TableId(0), Step(5)));
  EXPECT_EQ(CodecOf(Push(Step(5))), CodecType::kInt8);
}

}  // namespace
}  // namespace capstan
