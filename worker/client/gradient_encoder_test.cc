#include "worker/client/gradient_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
  plan.tables = {
      {Slicing(kSize, kSliceSize * sizeof(float)), {MakeCodec(codec).value(), nullptr, {}, {}}}};
  return HostEncoder::Create(plan).value();
}

std::vector<float> ResidualOf(GradientEncoder& encoder, SliceKey key) {
  const Payload residual = encoder.SaveState(key).value();
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
  EXPECT_EQ(of_second->bytes.size_bytes(),
            encoder->codec(TableId(0), Step(0)).EncodedBytes(second.size()));
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
  ASSERT_TRUE(encoder->LoadState(kFirst, residual).ok());
  EXPECT_EQ(ResidualOf(*encoder, kFirst), residual);
  std::vector<float> gradient(kSliceSize);
  gradient[7] = 4;
  const auto encoded = encoder->Encode(kFirst, Step(0), gradient);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(Bytes(encoded->bytes), (std::vector<uint8_t>{7, 0, 0, 0, 0, 0, 0x10, 0x41}));  // 9.0f
  EXPECT_EQ(encoded->norms.gradient, 16);
  EXPECT_EQ(encoded->norms.residual, 36);
}

// What 40 pushes have moved, and what is left, when the learning rate is halved after every ten
// steps, is 0 in some steps, and is a rounding error of 0 in others. The table's own rate is 1.
TEST(GradientEncoderTest, SentAndResidualTimesTheirRatesAreTheSumWhenTheRateIsStepped) {
  for (const std::string name : {"topk:0.1", "bfloat16", "int8", "topk:0.1:int8"}) {
    const auto codec = MakeCodec(name).value();
    const auto encoder = MakeEncoder(name);
    Random random(kSeed);
    std::vector<double> gradients(kSliceSize), sent(kSliceSize);
    for (int64_t step = 0; step < 40; ++step) {
      const std::vector<float> gradient = WholeNumbers(random);
      const double rate = step % 7 == 3   ? 0
                          : step % 7 == 5 ? 1e-17
                                          : std::pow(0.5, static_cast<double>(step / 10));
      encoder->BeginTable(TableId(0), gradient, rate);
      const auto encoded = encoder->Encode(kFirst, Step(step), gradient);
      ASSERT_TRUE(encoded.ok()) << encoded.status();
      std::vector<float> decoded(kSliceSize);
      codec->Decode(encoded->bytes.piece(), kSliceSize, 0, absl::MakeSpan(decoded));
      for (size_t i = 0; i < kSliceSize; ++i) {
        ASSERT_LT(std::abs(decoded[i]), 5000) << name << ", step " << step;
        gradients[i] += rate * gradient[i];
        sent[i] += rate * decoded[i];
      }
    }
    const std::vector<float> residual = ResidualOf(*encoder, kFirst);
    for (size_t i = 0; i < kSliceSize; ++i) {
      ASSERT_NEAR(sent[i] + residual[i], gradients[i], 40 * 5000 * 0x1p-23)
          << name << ", element " << i << ", seed " << kSeed;
    }
  }
}

TEST(GradientEncoderTest, AResidualIsScaledByTheRatioOfTheRatesAndKeptForTheTablesOwn) {
  const auto encoder = MakeEncoder("topk:1");
  std::vector<float> gradient(kSliceSize);
  gradient[7] = 8;
  gradient[9] = 4;
  encoder->BeginTable(TableId(0), gradient, /*learning_rate=*/0.5);
  ASSERT_TRUE(encoder->Encode(kFirst, Step(0), gradient).ok());
  EXPECT_EQ(ResidualOf(*encoder, kFirst)[9], 2);
  gradient[7] = gradient[9] = 0;
  encoder->BeginTable(TableId(0), gradient, /*learning_rate=*/0.25);
  const auto encoded = encoder->Encode(kFirst, Step(1), gradient);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(Bytes(encoded->bytes), (std::vector<uint8_t>{9, 0, 0, 0, 0, 0, 0, 0x41}));  // 8.0f
}

// Two workers' part of deep gradient compression: a table of topk:1 and a dense one.
class DgcTest : public testing::Test {
 protected:
  static constexpr double kMomentum = 0.5;

  static std::unique_ptr<GradientEncoder> Make(double clip_norm = 0,
                                               std::vector<TableCodecs::Warmup> warmup = {}) {
    CodecPlan plan;
    plan.workers = 4;
    for (const char* codec : {"topk:1", "float32"}) {
      TableCodecs codecs;
      codecs.push = MakeCodec(codec).value();
      codecs.dgc = {kMomentum, clip_norm};
      plan.tables.push_back({Slicing(3, 1 << 20), codecs});
    }
    plan.tables[0].codecs.warmup = std::move(warmup);
    return HostEncoder::Create(plan).value();
  }

  // The push, decoded.
  static std::vector<float> Push(GradientEncoder& encoder, TableId table, int64_t step,
                                 const std::vector<float>& gradient) {
    encoder.BeginTable(table, gradient, /*learning_rate=*/std::nullopt);
    const auto encoded = encoder.Encode({table, SliceIndex(0)}, Step(step), gradient);
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    std::vector<float> decoded(gradient.size());
    encoder.codec(table, Step(step))
        .Decode(encoded->bytes.piece(), decoded.size(), /*begin=*/0, absl::MakeSpan(decoded));
    return decoded;
  }
  static std::vector<float> StateOf(GradientEncoder& encoder, TableId table) {
    return ResidualOf(encoder, {table, SliceIndex(0)});
  }

  using Floats = std::vector<float>;
  static constexpr TableId kTopk = TableId(0), kDense = TableId(1);
};

TEST_F(DgcTest, ATopkSelectsFromSumsOfMomentumAndTakesItFromTheSent) {
  const auto encoder = Make();
  ASSERT_EQ(encoder->arrays(kTopk), 2u);
  // u = (8, 4, 2), v = u. 8 is sent: its u and v become 0.
  EXPECT_EQ(Push(*encoder, kTopk, 0, {8, 4, 2}), Floats({8, 0, 0}));
  EXPECT_EQ(StateOf(*encoder, kTopk), Floats({0, 4, 2, 0, 4, 2})) << "v, then u";
  // u = (1, 2, 1), v = (1, 6, 3).
  EXPECT_EQ(Push(*encoder, kTopk, 1, {1, 0, 0}), Floats({0, 6, 0}));
  EXPECT_EQ(StateOf(*encoder, kTopk), Floats({1, 0, 3, 1, 0, 1}));
  // u = (0.5, 0, 0.5), v = (1.5, 0, 3.5).
  EXPECT_EQ(Push(*encoder, kTopk, 2, {0, 0, 0}), Floats({0, 0, 3.5}));
}

TEST_F(DgcTest, ADenseTableIsPushedWithMomentum) {
  const auto encoder = Make();
  ASSERT_TRUE(encoder->encodes(kDense));
  ASSERT_EQ(encoder->arrays(kDense), 1u);
  EXPECT_EQ(Push(*encoder, kDense, 0, {8, 4, 2}), Floats({8, 4, 2}));
  EXPECT_EQ(Push(*encoder, kDense, 1, {1, 1, 1}), Floats({5, 3, 2}));
  EXPECT_EQ(StateOf(*encoder, kDense), Floats({5, 3, 2}));
}

TEST_F(DgcTest, AGradientLongerThanItsPartOfTheBoundIsMadeAsLongAsThat) {
  const auto encoder = Make(/*clip_norm=*/10);  // 5 for each of 4 workers
  EXPECT_EQ(Push(*encoder, kDense, 0, {6, 8, 0}), Floats({3, 4, 0}));
  EXPECT_EQ(Push(*encoder, kDense, 1, {3, 4, 0}), Floats({4.5, 6, 0})) << "not longer than 5";
}

TEST_F(DgcTest, TheFirstStepsSendMore) {
  const auto encoder = Make(0, {{Step(2), MakeCodec("topk:2").value()}});
  EXPECT_EQ(Push(*encoder, kTopk, 0, {8, 4, 2}), Floats({8, 4, 0}));
  EXPECT_EQ(Push(*encoder, kTopk, 1, {8, 4, 0}), Floats({8, 4, 0}));
  EXPECT_EQ(Push(*encoder, kTopk, 2, {8, 4, 0}), Floats({8, 0, 0}));
}

TEST_F(DgcTest, ASavedStateGoesOnWithTheSameBits) {
  const auto before = Make(), after = Make();
  for (const TableId table : {kTopk, kDense}) {
    Push(*before, table, 0, {0.3f, -0.7f, 0.1f});
    const Floats state = StateOf(*before, table);
    ASSERT_TRUE(after->LoadState({table, SliceIndex(0)}, state).ok());
    for (int64_t step = 1; step < 5; ++step) {
      EXPECT_EQ(Push(*before, table, step, {0.1f, 0.2f, -0.4f}),
                Push(*after, table, step, {0.1f, 0.2f, -0.4f}));
    }
  }
}

}  // namespace
}  // namespace capstan
