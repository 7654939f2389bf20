#include "worker/client/gradient_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"

namespace capstan {
namespace {

constexpr uint64_t kSeed = 31;
constexpr size_t kSize = 1000;
constexpr size_t kSliceSize = 600;
const SliceKey kFirst{TableId(0), SliceIndex(0)};
const SliceKey kSecond{TableId(0), SliceIndex(1)};

std::unique_ptr<GradientEncoder> MakeEncoder(const std::string& codec, uint32_t worker = 2) {
  CodecPlan plan;
  plan.draws.seed = kSeed;
  plan.draws.worker = WorkerId(worker);
  plan.tables = {{Slicing(kSize, kSliceSize * sizeof(float)), {MakeCodec(codec).value(), nullptr}}};
  return HostEncoder::Create(plan).value();
}

std::vector<float> ResidualOf(GradientEncoder& encoder, SliceKey key) {
  const Payload residual = encoder.SaveResidual(key).value();
  std::vector<float> values(residual.size_bytes() / sizeof(float));
  residual.CopyTo(absl::MakeSpan(values));
  return values;
}

std::vector<uint8_t> Bytes(const Payload& payload) {
  return std::vector<uint8_t>(payload.piece().begin(), payload.piece().end());
}

// Whole numbers up to 100: sums of some dozens are exact.
std::vector<float> WholeNumbers(Random& random) {
  std::vector<float> numbers(kSliceSize);
  for (float& number : numbers) number = static_cast<float>(random.UniformInt(201)) - 100.0f;
  return numbers;
}

// Sums of 40 steps: of all gradients, of all that was sent, and what is left.
struct Sums {
  std::vector<double> gradients = std::vector<double>(kSliceSize);
  std::vector<double> sent = std::vector<double>(kSliceSize);
  std::vector<float> residual;
};

Sums SumsOf(const std::string& name) {
  const auto codec = MakeCodec(name).value();
  const auto encoder = MakeEncoder(name);
  Random random(kSeed);
  Sums sums;
  for (int64_t step = 0; step < 40; ++step) {
    const std::vector<float> gradient = WholeNumbers(random);
    const auto encoded = encoder->Encode(kFirst, Step(step), gradient);
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    std::vector<float> decoded(kSliceSize);
    codec->Decode(encoded->bytes.piece(), kSliceSize, 0, absl::MakeSpan(decoded));
    for (size_t i = 0; i < kSliceSize; ++i) {
      sums.gradients[i] += gradient[i];
      sums.sent[i] += decoded[i];
    }
  }
  sums.residual = ResidualOf(*encoder, kFirst);
  return sums;
}

TEST(GradientEncoderTest, SentAndResidualAreTheSumOfGradientsExactlyForTopk) {
  const Sums sums = SumsOf("topk:0.1");
  for (size_t i = 0; i < kSliceSize; ++i) {
    ASSERT_EQ(sums.sent[i] + sums.residual[i], sums.gradients[i]) << i << ", seed " << kSeed;
  }
}

TEST(GradientEncoderTest, SentAndResidualAreTheSumOfGradientsWithinRounding) {
  for (const std::string name : {"bfloat16", "int8", "topk:0.1:int8", "topk:60:bfloat16"}) {
    const Sums sums = SumsOf(name);
    for (size_t i = 0; i < kSliceSize; ++i) {
      // Each of 40 steps rounds gradient + residual and the rest to 24 bits; none is above 5000.
      ASSERT_NEAR(sums.sent[i] + sums.residual[i], sums.gradients[i], 40 * 5000 * 0x1p-23)
          << name << ", element " << i << ", seed " << kSeed;
    }
  }
}

TEST(GradientEncoderTest, TheSamePushHasTheSameBytesAndAnotherWorkerOrStepHasOthers) {
  Random random(kSeed);
  const std::vector<float> gradient = WholeNumbers(random);
  const auto bytes = [&](uint32_t worker, int64_t step) {
    const auto encoder = MakeEncoder("int8", worker);
    return Bytes(encoder->Encode(kFirst, Step(step), gradient).value().bytes);
  };
  EXPECT_EQ(bytes(2, 5), bytes(2, 5));
  EXPECT_NE(bytes(2, 5), bytes(3, 5));
  EXPECT_NE(bytes(2, 5), bytes(2, 6));
}

TEST(GradientEncoderTest, SlicesHaveBytesAndResidualsOfTheirOwn) {
  const auto encoder = MakeEncoder("topk:1");
  std::vector<float> first(kSliceSize, 1), second(kSize - kSliceSize, 2);
  const auto of_first = encoder->Encode(kFirst, Step(0), first);
  ASSERT_TRUE(of_first.ok()) << of_first.status();
  const std::vector<uint8_t> before = Bytes(of_first->bytes);
  const auto of_second = encoder->Encode(kSecond, Step(0), second);
  ASSERT_TRUE(of_second.ok()) << of_second.status();
  EXPECT_EQ(Bytes(of_first->bytes), before);
  EXPECT_EQ(of_second->bytes.size_bytes(), encoder->codec(TableId(0)).EncodedBytes(second.size()));
  EXPECT_EQ(ResidualOf(*encoder, kFirst)[0], 0);
  EXPECT_EQ(ResidualOf(*encoder, kFirst)[1], 1);
  EXPECT_EQ(ResidualOf(*encoder, kSecond)[0], 0);
  EXPECT_EQ(ResidualOf(*encoder, kSecond)[1], 2);
}

TEST(GradientEncoderTest, AGradientWithoutNumbersIsRefusedAndTheResidualStays) {
  const auto encoder = MakeEncoder("int8");
  Random random(kSeed);
  std::vector<float> gradient = WholeNumbers(random);
  ASSERT_TRUE(encoder->Encode(kFirst, Step(0), gradient).ok());
  const std::vector<float> before = ResidualOf(*encoder, kFirst);
  for (const float wrong : {std::nanf(""), INFINITY, -INFINITY}) {
    gradient[kSliceSize - 1] = wrong;
    EXPECT_TRUE(absl::IsInvalidArgument(encoder->Encode(kFirst, Step(1), gradient).status()));
    EXPECT_EQ(before, ResidualOf(*encoder, kFirst));
  }
}

TEST(GradientEncoderTest, ALoadedResidualIsSentWithTheNextGradient) {
  const auto encoder = MakeEncoder("topk:1");
  std::vector<float> residual(kSliceSize);
  residual[7] = 5;
  residual[9] = 6;
  ASSERT_TRUE(encoder->LoadResidual(kFirst, residual).ok());
  EXPECT_EQ(ResidualOf(*encoder, kFirst), residual);
  std::vector<float> gradient(kSliceSize);
  gradient[7] = 4;
  const auto encoded = encoder->Encode(kFirst, Step(0), gradient);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(Bytes(encoded->bytes), (std::vector<uint8_t>{7, 0, 0, 0, 0, 0, 0x10, 0x41}));  // 9.0f
  EXPECT_EQ(encoded->norms.gradient, 16);
  EXPECT_EQ(encoded->norms.residual, 36);
}

}  // namespace
}  // namespace capstan
