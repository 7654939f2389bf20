// The bytes of topk, with every kind of vectors, against a selection by sorting.
#include "common/codec/topk_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/codec/bfloat16_codec.h"
#include "common/codec/codec_test_data.h"
#include "common/codec/float32_codec.h"
#include "common/codec/int8_codec.h"
#include "common/tensor/vector_targets.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Floats = std::vector<float>;

std::shared_ptr<const Codec> Topk(double ratio_or_count) {
  return MakeTopkCodec(ratio_or_count, MakeFloat32Codec());
}

// Positions by magnitude, the largest first, the lower one first among equals.
std::vector<uint32_t> OrderByDefinition(const Floats& numbers) {
  std::vector<uint32_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::fabs(numbers[a]) > std::fabs(numbers[b]);
  });
  return order;
}

Floats Sums(const Floats& values, const Floats& residual) {
  Floats sums = values;
  for (size_t i = 0; i < residual.size(); ++i) sums[i] = values[i] + residual[i];
  return sums;
}

// The numbers at `indices`, encoded by `values` after these indices.
std::vector<uint8_t> BytesByDefinition(const Floats& numbers, const std::vector<uint32_t>& indices,
                                       const Codec& values) {
  std::vector<uint8_t> bytes;
  Floats sent;
  for (const uint32_t index : indices) {
    for (int byte = 0; byte < 4; ++byte) bytes.push_back(index >> (8 * byte) & 0xff);
    sent.push_back(numbers[index]);
  }
  const std::vector<uint8_t> encoded = Encoded(values, sent, TestKey());
  bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  return bytes;
}

// Encodes values + residual, and compares all results with their definition. `residual` may be
// empty.
class Comparison {
 public:
  Comparison(Floats values, Floats residual)
      : values_(std::move(values)),
        residual_(std::move(residual)),
        sums_(Sums(values_, residual_)),
        order_(OrderByDefinition(sums_)) {}

  void Expect(size_t k, const std::shared_ptr<const Codec>& value_codec = MakeFloat32Codec()) {
    SCOPED_TRACE(testing::Message() << k << " of " << values_.size() << " as "
                                    << value_codec->name() << ", residual of " << residual_.size());
    const auto codec = MakeTopkCodec(static_cast<double>(k), value_codec);
    std::vector<uint32_t> indices(order_.begin(), order_.begin() + std::min(k, order_.size()));
    std::sort(indices.begin(), indices.end());
    Floats residual = residual_;
    std::vector<uint8_t> bytes(codec->EncodedBytes(values_.size()), 0xaa);
    const auto norms =
        codec->Encode(values_, TestKey(), absl::MakeSpan(residual), absl::MakeSpan(bytes));
    ASSERT_TRUE(norms.ok()) << norms.status();
    ASSERT_EQ(bytes, BytesByDefinition(sums_, indices, *value_codec));
    if (!residual_.empty()) ExpectResidual(indices, *codec, bytes, residual, *norms);
  }

 private:
  void ExpectResidual(const std::vector<uint32_t>& indices, const Codec& codec,
                      const std::vector<uint8_t>& bytes, const Floats& residual,
                      const Codec::Norms& norms) {
    Floats expected = sums_;
    const Floats decoded = Decoded(codec, bytes, values_.size());
    for (const uint32_t i : indices) expected[i] -= decoded[i];
    ASSERT_EQ(Bits(residual), Bits(expected));
    long double gradient = 0, rest = 0;
    for (const float value : values_) gradient += static_cast<long double>(value) * value;
    for (const float left : expected) rest += static_cast<long double>(left) * left;
    EXPECT_NEAR(norms.gradient, gradient, 1e-12L * gradient);
    EXPECT_NEAR(norms.residual, rest, 1e-12L * rest);
  }

  const Floats values_;
  const Floats residual_;
  const Floats sums_;
  const std::vector<uint32_t> order_;
};

// `n` numbers, each by its position.
Floats Numbers(size_t n, const std::function<float(size_t)>& number) {
  Floats numbers(n);
  for (size_t i = 0; i < n; ++i) numbers[i] = number(i);
  return numbers;
}

struct Distribution {
  std::string name;
  std::function<float(Random&, size_t i, size_t n)> number;
};

std::vector<Distribution> Distributions() {
  constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
  return {
      {"normal", [](Random& r, size_t, size_t) { return r.Normal(); }},
      {"heavy tails", [](Random& r, size_t, size_t) { return std::exp(5 * r.Normal()); }},
      {"all equal", [](Random&, size_t i, size_t) { return i % 3 == 0 ? -2.5f : 2.5f; }},
      {"few distinct", [](Random& r, size_t, size_t) { return r.UniformInt(7) - 3.0f; }},
      {"all zero", [](Random&, size_t i, size_t) { return i % 2 == 0 ? 0.0f : -0.0f; }},
      {"denormal", [](Random& r, size_t, size_t) { return kDenormal * r.UniformInt(100'000); }},
      {"ascending", [](Random&, size_t i, size_t) { return i * 0.25f; }},
      {"descending", [](Random&, size_t i, size_t n) { return (n - i) * -0.25f; }},
      {"sparse", [](Random& r, size_t, size_t) { return r.Bernoulli(0.001) ? r.Normal() : 0.0f; }},
      {"large at the end",
       [](Random& r, size_t i, size_t n) { return r.Normal() * (i + 500 < n ? 1e-3f : 1e3f); }},
      // The selection looks at 16 of each 512 numbers first.
      {"large where it looks first",
       [](Random& r, size_t i, size_t) { return r.Normal() * (i % 512 < 16 ? 1e3f : 1e-3f); }},
      {"small where it looks first",
       [](Random& r, size_t i, size_t) { return r.Normal() * (i % 512 < 16 ? 1e-3f : 1e3f); }},
  };
}

// Numbers of one distribution, with a residual of the same.
Comparison ComparisonOf(const Distribution& distribution, size_t n) {
  Random random(/*seed=*/7, /*stream=*/n);
  const auto number = [&](size_t i) { return distribution.number(random, i, n); };
  const Floats values = Numbers(n, number);
  return Comparison(values, Numbers(n, number));
}

TEST(TopkCodecTest, SendsTheLargestOfEveryDistribution) {
  for (const Distribution& distribution : Distributions()) {
    SCOPED_TRACE(distribution.name);
    for (const size_t n : {1, 2, 257, 4099, 40 * 512}) {
      Comparison comparison = ComparisonOf(distribution, n);
      ForEachVectorTarget([&] {
        for (const size_t k : {size_t{1}, n / 1000, n / 100, n / 3, n - 1, n, n + 5}) {
          if (k > 0) comparison.Expect(k);
        }
      });
    }
  }
}

TEST(TopkCodecTest, SendsTheLargestOfManyNumbers) {
  for (const Distribution& distribution : Distributions()) {
    SCOPED_TRACE(distribution.name);
    ComparisonOf(distribution, /*n=*/100'000).Expect(/*k=*/1000);
  }
  ComparisonOf(Distributions()[0], /*n=*/1'000'000).Expect(/*k=*/10'000);
}

TEST(TopkCodecTest, SelectedValuesAreEncodedAsOneSlice) {
  for (const auto& values : {MakeFloat32Codec(), MakeBfloat16Codec(), MakeInt8Codec()}) {
    const Floats numbers = TestValues(/*n=*/1000, /*seed=*/8);
    for (const size_t k : {1, 255, 256, 300, 1000}) {
      Comparison(numbers, {}).Expect(k, values);
      Comparison(numbers, TestValues(/*n=*/1000, /*seed=*/9)).Expect(k, values);
    }
  }
}

TEST(TopkCodecTest, MemoryNextToTheNumbersIsLeftAlone) {
  ForEachVectorTarget([] {
    for (const size_t n : {1, 15, 17, 4099}) {
      for (const size_t shift : {1, 2, 3}) {
        Random random(/*seed=*/9, /*stream=*/n);
        const auto normal = [&](size_t) { return random.Normal(); };
        const Floats values = Numbers(n, normal);
        Floats memory(shift + n + 1, std::numeric_limits<float>::quiet_NaN());
        std::copy(values.begin(), values.end(), memory.begin() + shift);
        Floats residual(shift + n + 1, -77.0f);
        const auto part = absl::MakeSpan(residual).subspan(shift, n);
        std::fill(part.begin(), part.end(), 0.5f);
        const auto codec = Topk(0.1);
        const Floats sums = Sums(values, Floats(n, 0.5f));
        const std::vector<uint8_t> bytes =
            Encoded(*codec, absl::MakeSpan(memory).subspan(shift, n), TestKey(), part);
        std::vector<uint32_t> indices = OrderByDefinition(sums);
        indices.resize(bytes.size() / 8);
        std::sort(indices.begin(), indices.end());
        EXPECT_EQ(bytes, BytesByDefinition(sums, indices, *MakeFloat32Codec()));
        EXPECT_EQ(residual[shift - 1], -77);
        EXPECT_EQ(residual.back(), -77);
      }
    }
  });
}

TEST(TopkCodecTest, NumberSentFollowsTheRatio) {
  const auto num_sent = [](double ratio_or_count, size_t n) {
    return Topk(ratio_or_count)->EncodedBytes(n) / 8;
  };
  EXPECT_EQ(num_sent(0.01, 0), 0);
  EXPECT_EQ(num_sent(0.01, 1), 1);
  EXPECT_EQ(num_sent(0.01, 99), 1);
  EXPECT_EQ(num_sent(0.01, 100), 1);
  EXPECT_EQ(num_sent(0.01, 101), 2);
  // The product in float64 is just above 7.
  EXPECT_EQ(num_sent(0.07, 100), 8);
  EXPECT_EQ(num_sent(0.01, 25'000'000), 250'000);
  EXPECT_EQ(num_sent(1e-300, 1'000'000), 1);
  EXPECT_EQ(num_sent(std::nextafter(1.0, 0.0), 1000), 1000);
  EXPECT_EQ(num_sent(1, 0), 0);
  EXPECT_EQ(num_sent(1, 5), 1);
  EXPECT_EQ(num_sent(5, 4), 4);
  EXPECT_EQ(num_sent(5, 6), 5);
}

TEST(TopkCodecTest, EncodedBytesAreThoseOfIndicesAndValues) {
  EXPECT_EQ(MakeTopkCodec(0.5, MakeFloat32Codec())->EncodedBytes(1000), 500 * 4 + 500 * 4);
  EXPECT_EQ(MakeTopkCodec(0.5, MakeBfloat16Codec())->EncodedBytes(1000), 500 * 4 + 500 * 2);
  EXPECT_EQ(MakeTopkCodec(0.5, MakeInt8Codec())->EncodedBytes(1000), 500 * 4 + 500 + 2 * 4);
}

TEST(TopkCodecTest, NameHasAllDigitsOfTheRatio) {
  EXPECT_EQ(Topk(0.01)->name(), "topk:0.01");
  EXPECT_EQ(Topk(0.1 + 0.2)->name(), "topk:0.30000000000000004");
  EXPECT_EQ(Topk(1)->name(), "topk:1");
  EXPECT_EQ(Topk(1'000'000)->name(), "topk:1000000");
  EXPECT_EQ(MakeTopkCodec(0.01, MakeInt8Codec())->name(), "topk:0.01:int8");
  EXPECT_EQ(MakeTopkCodec(100, MakeBfloat16Codec())->name(), "topk:100:bfloat16");
}

TEST(TopkCodecTest, TypeTellsTheValues) {
  EXPECT_EQ(Topk(0.01)->type(), CodecType::kTopkFloat32);
  EXPECT_EQ(MakeTopkCodec(0.01, MakeBfloat16Codec())->type(), CodecType::kTopkBfloat16);
  EXPECT_EQ(MakeTopkCodec(0.01, MakeInt8Codec())->type(), CodecType::kTopkInt8);
}

TEST(TopkCodecTest, NothingIsSentOfNothing) {
  const auto codec = Topk(0.01);
  EXPECT_THAT(Encoded(*codec, {}, TestKey()), ElementsAre());
  EXPECT_TRUE(codec->Check({}, 0).ok());
}

TEST(TopkCodecTest, BytesAreGolden) {
  const Floats values = {0.5f, -3.0f, 0.0f, 1.5f, 3.0f, -1.5f};
  EXPECT_THAT(Encoded(*Topk(3), values, TestKey()),
              ElementsAre(1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0,  // indices
                          0, 0, 0x40, 0xc0, 0, 0, 0xc0, 0x3f, 0, 0, 0x40, 0x40));
  EXPECT_THAT(Encoded(*MakeTopkCodec(0.5, MakeBfloat16Codec()), values, TestKey()),
              ElementsAre(1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0,  // indices
                          0x40, 0xc0, 0xc0, 0x3f, 0x40, 0x40));
  // 127 is the largest value: the scale is 1, and whole numbers stay.
  Floats whole(300, 1.0f);
  whole[299] = -127;
  whole[258] = 5;
  EXPECT_THAT(Encoded(*MakeTopkCodec(2, MakeInt8Codec()), whole, TestKey()),
              ElementsAre(2, 1, 0, 0, 0x2b, 1, 0, 0,  // indices
                          0, 0, 0x80, 0x3f, 5, 0x81));
}

TEST(TopkCodecTest, SentAndResidualAreAllThatWasGiven) {
  constexpr size_t kNumbers = 5000;
  const auto codec = Topk(0.01);
  Random random(/*seed=*/10);
  Floats residual(kNumbers, 0.0f);
  std::vector<double> given(kNumbers), received(kNumbers);
  for (int step = 0; step < 50; ++step) {
    // Sums of small whole numbers are exact.
    const Floats values = Numbers(
        kNumbers, [&](size_t) { return static_cast<float>(random.UniformInt(2001)) - 1000; });
    const auto bytes = Encoded(*codec, values, TestKey(), absl::MakeSpan(residual));
    const Floats decoded = Decoded(*codec, bytes, kNumbers);
    for (size_t i = 0; i < kNumbers; ++i) {
      given[i] += values[i];
      received[i] += decoded[i];
      ASSERT_EQ(received[i] + residual[i], given[i]) << "element " << i << " in step " << step;
    }
  }
}

TEST(TopkCodecTest, ResidualOfEverythingSentIsZero) {
  const Floats values = TestValues(/*n=*/5000, /*seed=*/11);
  Floats residual = TestValues(/*n=*/5000, /*seed=*/12);
  std::vector<uint8_t> bytes(Topk(5000)->EncodedBytes(5000));
  const auto norms =
      Topk(5000)->Encode(values, TestKey(), absl::MakeSpan(residual), absl::MakeSpan(bytes));
  ASSERT_TRUE(norms.ok()) << norms.status();
  EXPECT_EQ(norms->residual, 0);
  EXPECT_EQ(Bits(residual), Bits(Floats(5000, 0.0f)));
}

TEST(TopkCodecTest, NotFiniteSumIsFoundWhereverItIs) {
  ForEachVectorTarget([] {
    constexpr size_t kNumbers = 5000;
    const Floats values(kNumbers, 1.0f);
    const Floats kept(kNumbers, 2.0f);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      for (size_t i = 0; i < kNumbers; i += 7) {
        Floats residual = kept;
        residual[i] = bad;
        const Floats before = residual;
        std::vector<uint8_t> bytes(Topk(0.01)->EncodedBytes(kNumbers));
        const auto norms =
            Topk(0.01)->Encode(values, TestKey(), absl::MakeSpan(residual), absl::MakeSpan(bytes));
        EXPECT_EQ(norms.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(norms.status().message(), HasSubstr(absl::StrCat("element ", i)));
        ASSERT_EQ(Bits(residual), Bits(before));
      }
    }
  });
}

// Bytes of 1, 2 ... as elements 10, 20 ... 70 of 71.
std::vector<uint8_t> ValidBytes(const Codec& codec) {
  Floats values(71, 0.0f);
  for (size_t i = 1; i <= 7; ++i) values[10 * i] = static_cast<float>(i);
  return Encoded(codec, values, TestKey());
}

void ExpectRefused(const Codec& codec, const std::vector<uint8_t>& bytes,
                   const std::string& message) {
  const absl::Status status = codec.Check(bytes, /*n=*/71);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message(), message);
}

TEST(TopkCodecTest, BytesOfAnotherLengthAreRefused) {
  const auto codec = Topk(7);
  std::vector<uint8_t> bytes = ValidBytes(*codec);
  EXPECT_TRUE(codec->Check(bytes, /*n=*/71).ok());
  bytes.pop_back();
  ExpectRefused(*codec, bytes, "expected 56 bytes for 71 values as topk:7, got 55");
  bytes.resize(60);
  ExpectRefused(*codec, bytes, "expected 56 bytes for 71 values as topk:7, got 60");
}

TEST(TopkCodecTest, IndicesOutOfOrderAreRefused) {
  const auto codec = Topk(7);
  for (const int position : {1, 4, 6}) {
    const std::string at = absl::StrCat(" as indices ", position - 1, " and ", position);
    std::vector<uint8_t> bytes = ValidBytes(*codec);
    bytes[4 * position] = 10 * position;
    ExpectRefused(*codec, bytes,
                  absl::StrCat("expected ascending indices, got ", 10 * position, " and ",
                               10 * position, at));
    bytes[4 * position] = 3;
    ExpectRefused(*codec, bytes,
                  absl::StrCat("expected ascending indices, got ", 10 * position, " and 3", at));
  }
}

TEST(TopkCodecTest, IndicesBeyondTheSliceAreRefused) {
  const auto codec = Topk(7);
  std::vector<uint8_t> bytes = ValidBytes(*codec);
  bytes[4 * 6] = 71;
  ExpectRefused(*codec, bytes, "expected indices below 71, got 71 as index 6");
  bytes[4 * 6 + 3] = 0xff;
  ExpectRefused(*codec, bytes, "expected indices below 71, got 4278190151 as index 6");
}

TEST(TopkCodecTest, ValuesThatAreNotFiniteAreRefused) {
  const auto codec = Topk(7);
  std::vector<uint8_t> bytes = ValidBytes(*codec);
  bytes[4 * 7 + 4 * 2 + 2] = 0x80;
  bytes[4 * 7 + 4 * 2 + 3] = 0xff;
  ExpectRefused(*codec, bytes, "sent values: expected finite values, got -inf as element 2");
  const auto with_bfloat16 = MakeTopkCodec(7, MakeBfloat16Codec());
  bytes = ValidBytes(*with_bfloat16);
  bytes[4 * 7 + 2 * 2] = 0x80;
  bytes[4 * 7 + 2 * 2 + 1] = 0x7f;
  EXPECT_THAT(with_bfloat16->Check(bytes, 71).message(), HasSubstr("sent values: expected"));
  const auto with_int8 = MakeTopkCodec(7, MakeInt8Codec());
  bytes = ValidBytes(*with_int8);
  bytes[4 * 7 + 3] = 0xff;
  EXPECT_THAT(with_int8->Check(bytes, 71).message(), HasSubstr("sent values: expected"));
}

}  // namespace
}  // namespace capstan
