// What every codec promises, whatever its bytes are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cfloat>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/codec_test_data.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSizes[] = {0, 1, 2, 255, 256, 257, 4096 + 3, 100'000};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CodecConformanceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto codec = MakeCodec(GetParam());
    ASSERT_TRUE(codec.ok()) << codec.status();
    codec_ = *codec;
  }

  // The codec keeps a residual.
  bool has_residual() const { return codec_->is_lossy(); }
  bool draws() const {
    return codec_->type() == CodecType::kInt8 || codec_->type() == CodecType::kTopkInt8;
  }

  // Encodes with the residual, and compares the new residual and the norms with their definition.
  void ExpectRightResidual(const std::vector<float>& values, std::vector<float> residual) {
    std::vector<float> sums(values.size());
    for (size_t i = 0; i < values.size(); ++i) sums[i] = values[i] + residual[i];
    std::vector<uint8_t> bytes(codec_->EncodedBytes(values.size()));
    const auto norms =
        codec_->Encode(values, TestKey(), absl::MakeSpan(residual), absl::MakeSpan(bytes));
    ASSERT_TRUE(norms.ok()) << norms.status();
    EXPECT_EQ(bytes, Encoded(*codec_, sums, TestKey()));
    const std::vector<float> decoded = Decoded(*codec_, bytes, values.size());
    double gradient = 0, rest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(residual[i], sums[i] - decoded[i]) << "element " << i;
      gradient += double{values[i]} * values[i];
      rest += double{residual[i]} * residual[i];
    }
    EXPECT_NEAR(norms->gradient, gradient, 1e-10 * gradient);
    EXPECT_NEAR(norms->residual, rest, 1e-10 * rest);
  }

  void ExpectRefused(const std::vector<float>& values, const std::vector<float>& residual) {
    std::vector<float> kept = residual;
    std::vector<uint8_t> bytes(codec_->EncodedBytes(values.size()));
    const auto norms =
        codec_->Encode(values, TestKey(), absl::MakeSpan(kept), absl::MakeSpan(bytes));
    EXPECT_EQ(norms.status().code(), absl::StatusCode::kInvalidArgument) << norms.status();
    EXPECT_EQ(Bits(kept), Bits(residual));
  }

  std::shared_ptr<const Codec> codec_;
};

// Codecs that keep a residual.
class LossyCodecTest : public CodecConformanceTest {};

TEST_P(CodecConformanceTest, NameReadsBackAsTheSameCodec) {
  const auto same = MakeCodec(codec_->name());
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ((*same)->name(), codec_->name());
  EXPECT_EQ((*same)->type(), codec_->type());
  EXPECT_EQ((*same)->EncodedBytes(100'000), codec_->EncodedBytes(100'000));
}

TEST_P(CodecConformanceTest, ValuesOfEverySizeAreEncodedAndDecoded) {
  for (const size_t n : kSizes) {
    SCOPED_TRACE(testing::Message() << "n = " << n);
    const std::vector<float> values = TestValues(n, /*seed=*/n);
    const std::vector<float> decoded = Decoded(*codec_, Encoded(*codec_, values, TestKey()), n);
    double error = 0, squares = 0;
    for (size_t i = 0; i < n; ++i) {
      error += std::pow(double{values[i]} - decoded[i], 2);
      squares += std::pow(values[i], 2);
    }
    EXPECT_LE(error, squares);
    if (codec_->is_lossy()) continue;
    EXPECT_EQ(Bits(decoded), Bits(values));
  }
}

TEST_P(LossyCodecTest, ResidualIsWhatTheBytesLack) {
  for (const size_t n : kSizes) {
    SCOPED_TRACE(testing::Message() << "n = " << n);
    ExpectRightResidual(TestValues(n, /*seed=*/n), TestValues(n, /*seed=*/n + 1));
  }
}

TEST_P(CodecConformanceTest, WithoutResidualNormsAreZero) {
  const std::vector<float> values = TestValues(/*n=*/1000, /*seed=*/1);
  std::vector<uint8_t> bytes(codec_->EncodedBytes(values.size()));
  const auto norms = codec_->Encode(values, TestKey(), {}, absl::MakeSpan(bytes));
  ASSERT_TRUE(norms.ok()) << norms.status();
  EXPECT_EQ(norms->gradient, 0);
  EXPECT_EQ(norms->residual, 0);
}

TEST_P(CodecConformanceTest, ExtremeValuesStayFinite) {
  const float kDenormal = std::numeric_limits<float>::denorm_min();
  for (const float extreme : {0.0f, -0.0f, kDenormal, -kDenormal, FLT_MIN / 2, -FLT_MIN, 0x1p-100f,
                              0x1.fffffep-101f, FLT_MAX, -FLT_MAX, 0x1.ff8p127f, -0x1.fep127f}) {
    for (const size_t n : {1, 256, 300}) {
      SCOPED_TRACE(testing::Message() << n << " values, among them " << extreme);
      std::vector<float> values(n, extreme);
      const std::vector<float> residual(n, 0.0f);
      for (const bool mixed : {false, true}) {
        for (size_t i = 1; mixed && i < n; i += 2) values[i] = -0.25f * extreme;
        const std::vector<float> decoded = Decoded(*codec_, Encoded(*codec_, values, TestKey()), n);
        for (const float value : decoded) ASSERT_TRUE(std::isfinite(value));
        if (has_residual()) ExpectRightResidual(values, residual);
      }
    }
  }
}

TEST_P(LossyCodecTest, ValuesThatAreNotFiniteAreRefusedAndTheResidualStays) {
  const size_t n = 1000;
  const std::vector<float> residual = TestValues(n, /*seed=*/2);
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{255}, size_t{700}, n - 1}) {
      SCOPED_TRACE(testing::Message() << bad << " as element " << at);
      std::vector<float> values = TestValues(n, /*seed=*/1);
      values[at] = bad;
      ExpectRefused(values, residual);
      ExpectRefused(values, {});
    }
  }
}

TEST_P(LossyCodecTest, SumsThatOverflowAreRefusedAndTheResidualStays) {
  for (const float large : {FLT_MAX, -FLT_MAX}) {
    std::vector<float> values = TestValues(/*n=*/1000, /*seed=*/1);
    std::vector<float> residual = TestValues(/*n=*/1000, /*seed=*/2);
    values[999] = large;
    residual[999] = large;
    ExpectRefused(values, residual);
  }
}

TEST_P(LossyCodecTest, ResidualThatIsNotFiniteIsRefused) {
  for (const float bad : {kNan, kInfinity}) {
    std::vector<float> residual = TestValues(/*n=*/257, /*seed=*/2);
    residual[256] = bad;
    ExpectRefused(TestValues(/*n=*/257, /*seed=*/1), residual);
  }
}

TEST_P(CodecConformanceTest, PartsDecodeAsTheWhole) {
  for (const size_t n : {size_t{257}, size_t{4099}}) {
    const std::vector<uint8_t> bytes = Encoded(*codec_, TestValues(n, /*seed=*/n), TestKey());
    const std::vector<float> whole = Decoded(*codec_, bytes, n);
    for (size_t begin = 0; begin < n; begin += Codec::kDecodeAlignment) {
      for (const size_t size :
           {size_t{0}, size_t{1}, size_t{17}, size_t{256}, size_t{259}, size_t{1000}, n - begin}) {
        if (size > n - begin) continue;
        // One more, which has to stay.
        std::vector<float> part(size + 1, -77);
        codec_->Decode(bytes, n, begin, absl::MakeSpan(part).first(size));
        for (size_t i = 0; i < size; ++i) ASSERT_EQ(part[i], whole[begin + i]);
        EXPECT_EQ(part[size], -77) << size << " from " << begin << " of " << n;
      }
    }
  }
}

TEST_P(CodecConformanceTest, DecodeAddAddsWhatDecodeGives) {
  for (const size_t n : kSizes) {
    const std::vector<uint8_t> bytes = Encoded(*codec_, TestValues(n, /*seed=*/n), TestKey());
    const std::vector<float> whole = Decoded(*codec_, bytes, n);
    const std::vector<float> before = TestValues(n, /*seed=*/9);
    for (const size_t begin : {0, 256, 4096}) {
      if (begin > n) continue;
      for (const size_t size : {n - begin, (n - begin) / 2}) {
        std::vector<float> sum(before.begin(), before.begin() + size);
        sum.push_back(-77);
        codec_->DecodeAdd(bytes, n, begin, absl::MakeSpan(sum).first(size));
        for (size_t i = 0; i < size; ++i) ASSERT_EQ(sum[i], before[i] + whole[begin + i]);
        EXPECT_EQ(sum[size], -77) << size << " from " << begin << " of " << n;
      }
    }
  }
}

TEST_P(CodecConformanceTest, TheSameKeyGivesTheSameBytes) {
  const std::vector<float> values = TestValues(/*n=*/1000, /*seed=*/1);
  const std::vector<uint8_t> bytes = Encoded(*codec_, values, TestKey());
  EXPECT_EQ(Encoded(*codec_, values, TestKey()), bytes);
  DrawKey keys[8];
  for (DrawKey& key : keys) key = TestKey();
  keys[0].seed ^= 1;
  keys[1].seed ^= uint64_t{1} << 63;
  keys[2].table = TableId(4);
  keys[3].worker = WorkerId(4);
  keys[4].step = keys[4].step + 1;
  keys[5].step = keys[5].step + (int64_t{1} << 32);
  keys[6].first_element += 8;
  keys[7].first_element += uint64_t{8} << 32;
  for (const DrawKey& key : keys) {
    EXPECT_EQ(Encoded(*codec_, values, key) == bytes, !draws()) << "key " << &key - keys;
  }
}

TEST_P(CodecConformanceTest, BytesAndValuesCanStartAnywhere) {
  const size_t n = 4099;
  const std::vector<float> values = TestValues(n, /*seed=*/1);
  const std::vector<uint8_t> bytes = Encoded(*codec_, values, TestKey());
  const std::vector<float> decoded = Decoded(*codec_, bytes, n);
  for (size_t shift = 1; shift <= 5; ++shift) {
    SCOPED_TRACE(testing::Message() << "shift " << shift);
    std::vector<uint8_t> memory(shift + bytes.size() + 1, 0x55);
    const absl::Span<uint8_t> shifted = absl::MakeSpan(memory).subspan(shift, bytes.size());
    std::vector<float> moved(shift, 1);
    moved.insert(moved.end(), values.begin(), values.end());
    const absl::Span<float> floats = absl::MakeSpan(moved).subspan(shift);
    ASSERT_TRUE(codec_->Encode(floats, TestKey(), {}, shifted).ok());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), shifted.begin()));
    EXPECT_EQ(memory.back(), 0x55);
    EXPECT_EQ(memory[shift - 1], 0x55);
    EXPECT_TRUE(codec_->Check(shifted, n).ok());
    codec_->Decode(shifted, n, /*begin=*/0, floats);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(floats[i], decoded[i]);
    codec_->DecodeAdd(shifted, n, /*begin=*/0, floats);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(floats[i], decoded[i] + decoded[i]);
  }
}

TEST_P(CodecConformanceTest, WrongLengthsAreRefused) {
  for (const size_t n : kSizes) {
    const size_t right = codec_->EncodedBytes(n);
    for (const size_t length :
         {size_t{0}, right / 2, right - 4, right - 1, right + 1, right + 4, 2 * right}) {
      if (length == right || length > 2 * right + 4) continue;
      const absl::Status status = codec_->Check(std::vector<uint8_t>(length), n);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(length)));
    }
  }
}

TEST_P(LossyCodecTest, ErrorFeedbackLosesNothingOverManySteps) {
  const size_t n = 600;
  std::vector<float> residual(n, 0.0f);
  std::vector<double> given(n), received(n);
  double magnitude = 0;
  for (int step = 0; step < 50; ++step) {
    const std::vector<float> values = TestValues(n, /*seed=*/step);
    const std::vector<uint8_t> bytes =
        Encoded(*codec_, values, TestKey(), absl::MakeSpan(residual));
    const std::vector<float> decoded = Decoded(*codec_, bytes, n);
    for (size_t i = 0; i < n; ++i) {
      given[i] += values[i];
      received[i] += decoded[i];
      magnitude = std::max(magnitude, std::abs(given[i]));
    }
  }
  // A sum in float32 is off by at most 2^-24 of it, twice a step.
  for (size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(given[i], received[i] + residual[i], 50 * 2 * 0x1p-23 * magnitude);
  }
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(LossyCodecs, LossyCodecTest,
                         testing::Values("bfloat16", "int8", "topk:0.01", "topk:1", "topk:300",
                                         "topk:0.99:bfloat16", "topk:0.1:int8", "topk:1000:int8"),
                         TestName);

INSTANTIATE_TEST_SUITE_P(EveryCodec, CodecConformanceTest,
                         testing::Values("float32", "bfloat16", "int8", "topk:0.01", "topk:1",
                                         "topk:300", "topk:0.99:bfloat16", "topk:0.1:int8",
                                         "topk:1000:int8"),
                         TestName);

}  // namespace
}  // namespace capstan
