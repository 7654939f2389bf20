// Every codec on the GPU against common/codec, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/codec/bfloat16_codec.h"
#include "common/codec/changed_values.h"
#include "common/codec/codec.h"
#include "common/codec/float32_codec.h"
#include "common/codec/int8_codec.h"
#include "common/codec/topk_codec.h"
#include "kernels/cuda/bfloat16_codec.h"
#include "kernels/cuda/device_array.h"
#include "kernels/cuda/int8_codec.h"
#include "kernels/cuda/slice_encoding.h"
#include "kernels/cuda/topk_codec.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A codec on both devices.
struct Twins {
  std::string name;
  std::shared_ptr<const Codec> cpu;
  bool keeps_residual = false;  // where a value is not finite
  std::function<size_t(int64_t n)> scratch_bytes;
  std::function<absl::Status(const SliceToEncode&, const EncodeDraws&, CudaStream&)> encode;
  std::function<absl::Status(int64_t n, const uint8_t*, float*, CudaStream&)> decode;
  std::function<absl::Status(int64_t n, const uint8_t*, float*, CudaStream&)> decode_add;
};

Twins Bfloat16Twins() {
  Twins twins;
  twins.name = "bfloat16";
  twins.cpu = MakeBfloat16Codec();
  twins.scratch_bytes = EncodeBfloat16ScratchBytes;
  twins.encode = [](const SliceToEncode& slice, const EncodeDraws&, CudaStream& stream) {
    return EncodeBfloat16(slice, stream);
  };
  twins.decode = DecodeBfloat16;
  twins.decode_add = DecodeAddBfloat16;
  return twins;
}

Twins Int8Twins() {
  Twins twins;
  twins.name = "int8";
  twins.cpu = MakeInt8Codec();
  twins.scratch_bytes = EncodeInt8ScratchBytes;
  twins.encode = EncodeInt8;
  twins.decode = DecodeInt8;
  twins.decode_add = DecodeAddInt8;
  return twins;
}

std::shared_ptr<const Codec> CpuValues(TopkValues type) {
  if (type == TopkValues::kFloat32) return MakeFloat32Codec();
  return type == TopkValues::kBfloat16 ? MakeBfloat16Codec() : MakeInt8Codec();
}

Twins TopkTwins(const std::string& rule, double ratio_or_count, TopkValues type) {
  const auto k = [ratio_or_count](int64_t n) {
    const double size = static_cast<double>(n);
    return static_cast<int64_t>(ratio_or_count < 1 ? std::ceil(ratio_or_count * size)
                                                   : std::min(ratio_or_count, size));
  };
  Twins twins;
  twins.cpu = MakeTopkCodec(ratio_or_count, CpuValues(type));
  twins.name = "topk_" + rule + "_" + CpuValues(type)->name();
  twins.keeps_residual = true;
  twins.scratch_bytes = [=](int64_t n) { return EncodeTopkScratchBytes(n, k(n), type); };
  twins.encode = [=](const SliceToEncode& slice, const EncodeDraws& draws, CudaStream& stream) {
    return EncodeTopk(slice, k(slice.n), type, draws, stream);
  };
  twins.decode = [=](int64_t n, const uint8_t* bytes, float* values, CudaStream& stream) {
    return DecodeTopk(n, k(n), type, bytes, values, stream);
  };
  twins.decode_add = [=](int64_t n, const uint8_t* bytes, float* sum, CudaStream& stream) {
    return DecodeAddTopk(k(n), type, bytes, sum, stream);
  };
  return twins;
}

std::vector<Twins> AllTwins() {
  std::vector<Twins> all = {Bfloat16Twins(), Int8Twins()};
  // All kinds of values select in the same way.
  all.push_back(TopkTwins("one", 1, TopkValues::kFloat32));
  all.push_back(TopkTwins("hundredth", 0.01, TopkValues::kFloat32));
  all.push_back(TopkTwins("all", UINT32_MAX, TopkValues::kFloat32));
  all.push_back(TopkTwins("700", 700, TopkValues::kBfloat16));
  all.push_back(TopkTwins("700", 700, TopkValues::kInt8));
  all.push_back(TopkTwins("all", UINT32_MAX, TopkValues::kInt8));
  return all;
}

struct Input {
  std::string name;
  std::vector<float> values;
  std::vector<float> residual;
};

// `draw` makes an element of the values and of the residual.
Input MakeInput(const std::string& name, int64_t n, const std::function<float()>& draw) {
  Input input = {name, std::vector<float>(n), std::vector<float>(n)};
  std::generate(input.values.begin(), input.values.end(), draw);
  std::generate(input.residual.begin(), input.residual.end(), draw);
  return input;
}

Input NormalInput(int64_t n, Random& random) {
  return MakeInput("normal", n, [&] { return random.Normal(); });
}

std::vector<Input> AllInputs(int64_t n, uint64_t seed) {
  Random random(seed);
  const auto magnitudes = [&] { return std::exp(8 * random.Normal()) * random.Normal(); };
  const auto whole = [&](int bound) {
    return static_cast<float>(random.UniformInt(2 * bound + 1)) - static_cast<float>(bound);
  };
  std::vector<Input> inputs = {
      NormalInput(n, random),
      MakeInput("all magnitudes", n, magnitudes),
      MakeInput("ties", n, [&] { return whole(2); }),
      MakeInput("zeros", n, [&] { return random.Bernoulli(0.5) ? 0.0f : -0.0f; }),
      MakeInput("denormals", n, [&] { return whole(1000) * 0x1p-149f; }),
      MakeInput("about 2^-100", n, [&] { return whole(5) * 0x1p-102f; }),
      MakeInput("huge", n, [&] { return whole(3) * (FLT_MAX / 6); }),
      NormalInput(n, random),
  };
  // Some become the largest float32, which is beyond the largest bfloat16.
  for (float& value : inputs[6].residual) value = std::abs(value) == FLT_MAX / 2 ? 0.0f : value;
  for (size_t i = 0; i < inputs[6].values.size(); i += 5) {
    inputs[6].values[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
    inputs[6].residual[i] = 0;
  }
  for (float& value : inputs[6].values) value = std::abs(value) < FLT_MAX ? value / 4 : value;
  inputs.back().name = "sorted";
  std::sort(inputs.back().values.begin(), inputs.back().values.end());
  std::fill(inputs.back().residual.begin(), inputs.back().residual.end(), 0.0f);
  // For the emulator's sake.
  if (n > 10000) inputs.resize(3);
  return inputs;
}

DrawKey TestKey(int64_t step) {
  DrawKey key;
  key.seed = 0xfedcba9876543210;
  key.table = TableId(7);
  key.worker = WorkerId(9);
  key.step = Step(0x1300000000 + step);
  // The high half of the blocks' number changes within a slice.
  key.first_element = (uint64_t{8} << 32) - 512;
  return key;
}

EncodeDraws GpuDraws(const DrawKey& key) {
  return MakeEncodeDraws(key.seed, key.table, key.worker, key.step, key.first_element);
}

double SquareSum(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return sum;
}

// Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2: (n - 1) unit roundoffs of
// float64 in the worst order, on either side.
void ExpectSum(double got, double expected, size_t n) {
  EXPECT_NEAR(got, expected, static_cast<double>(n) * 0x1p-52 * expected);
}

class CudaCodecTest : public testing::TestWithParam<Twins> {
 protected:
  size_t EncodedBytes(int64_t n) const {
    return GetParam().cpu->EncodedBytes(static_cast<size_t>(n));
  }
  DeviceArray<char> PoisonedScratch(int64_t n) {
    return DeviceArray<char>(std::vector<char>(GetParam().scratch_bytes(n), -1), gpu_);
  }

  struct Encoded {
    std::vector<uint8_t> bytes;
    std::vector<float> residual;
    EncodeResult result;
  };

  Encoded Encode(const Input& input, const DrawKey& key, const DeviceArray<char>& scratch,
                 size_t shift) {
    const int64_t n = static_cast<int64_t>(input.values.size());
    const DeviceArray<float> values(input.values, gpu_, shift);
    const DeviceArray<float> residual(input.residual, gpu_, shift);
    const DeviceArray<uint8_t> bytes(std::vector<uint8_t>(EncodedBytes(n), 0xee), gpu_);
    const DeviceArray<EncodeResult> result({{kNan, kNan, -1}}, gpu_);
    SliceToEncode slice;
    slice.n = n;
    slice.values = values.data();
    slice.residual = input.residual.empty() ? nullptr : residual.data();
    slice.bytes = bytes.data();
    slice.result = result.data();
    slice.scratch = scratch.data();
    const absl::Status status = GetParam().encode(slice, GpuDraws(key), *gpu_.stream);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(HasSameBits(values.Download(), input.values));
    scratch.Download();
    return {bytes.Download(), residual.Download(), result.Download()[0]};
  }

  void ExpectEncodesAsTheCpu(const Input& input, const DrawKey& key,
                             const DeviceArray<char>& scratch, size_t shift) {
    SCOPED_TRACE(testing::Message() << input.name << ", n = " << input.values.size() << ", shift "
                                    << shift << (input.residual.empty() ? ", no residual" : ""));
    std::vector<uint8_t> bytes(EncodedBytes(static_cast<int64_t>(input.values.size())));
    std::vector<float> residual = input.residual;
    const auto norms =
        GetParam().cpu->Encode(input.values, key, absl::MakeSpan(residual), absl::MakeSpan(bytes));
    ASSERT_TRUE(norms.ok()) << norms.status();

    const Encoded encoded = Encode(input, key, scratch, shift);

    ASSERT_EQ(encoded.bytes, bytes);
    ASSERT_TRUE(HasSameBits(encoded.residual, residual));
    EXPECT_EQ(encoded.result.non_finite, 0);
    const size_t n = residual.size();
    ExpectSum(encoded.result.gradient_sum_of_squares, n == 0 ? 0 : SquareSum(input.values), n);
    ExpectSum(encoded.result.residual_sum_of_squares, SquareSum(residual), n);
  }

  void ExpectDecodesAsTheCpu(const Input& input, size_t shift) {
    SCOPED_TRACE(testing::Message()
                 << input.name << ", n = " << input.values.size() << ", shift " << shift);
    const size_t n = input.values.size();
    std::vector<uint8_t> bytes(EncodedBytes(static_cast<int64_t>(n)));
    ASSERT_TRUE(GetParam()
                    .cpu->Encode(input.values, TestKey(0), /*residual=*/{}, absl::MakeSpan(bytes))
                    .ok());
    std::vector<float> expected(n);
    std::vector<float> sum = input.residual;
    GetParam().cpu->Decode(bytes, n, /*begin=*/0, absl::MakeSpan(expected));
    GetParam().cpu->DecodeAdd(bytes, n, /*begin=*/0, absl::MakeSpan(sum));

    const int64_t size = static_cast<int64_t>(n);
    const DeviceArray<uint8_t> bytes_on_gpu(bytes, gpu_);
    const DeviceArray<float> decoded(std::vector<float>(n, kNan), gpu_, shift);
    const DeviceArray<float> sum_on_gpu(input.residual, gpu_, shift);
    ASSERT_TRUE(GetParam().decode(size, bytes_on_gpu.data(), decoded.data(), *gpu_.stream).ok());
    ASSERT_TRUE(
        GetParam().decode_add(size, bytes_on_gpu.data(), sum_on_gpu.data(), *gpu_.stream).ok());

    EXPECT_TRUE(HasSameBits(decoded.Download(), expected));
    EXPECT_TRUE(HasSameBits(sum_on_gpu.Download(), sum));
    EXPECT_EQ(bytes_on_gpu.Download(), bytes);
  }

  TestGpu gpu_;
};

constexpr int64_t kSizes[] = {0, 1, 2, 255, 256, 257, 2048, 2049, 4099, 100003};

TEST_P(CudaCodecTest, BytesAndResidualHaveTheBitsOfTheCpu) {
  for (const int64_t n : kSizes) {
    // One after the other in the same scratch memory.
    const DeviceArray<char> scratch = PoisonedScratch(n);
    int64_t step = 0;
    for (const Input& input : AllInputs(n, /*seed=*/81)) {
      ExpectEncodesAsTheCpu(input, TestKey(++step), scratch, /*shift=*/0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaCodecTest, BytesWithoutAResidualHaveTheBitsOfTheCpu) {
  for (const int64_t n : {1, 257, 4099}) {
    const DeviceArray<char> scratch = PoisonedScratch(n);
    for (Input& input : AllInputs(n, /*seed=*/82)) {
      input.residual.clear();
      ExpectEncodesAsTheCpu(input, TestKey(/*step=*/0), scratch, /*shift=*/0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaCodecTest, ArraysThatAreNotAlignedHaveTheSameBits) {
  for (const int64_t n : {1, 255, 4099}) {
    const DeviceArray<char> scratch = PoisonedScratch(n);
    for (const Input& input : AllInputs(n, /*seed=*/83)) {
      ExpectEncodesAsTheCpu(input, TestKey(/*step=*/0), scratch, /*shift=*/1);
      ExpectDecodesAsTheCpu(input, /*shift=*/3);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaCodecTest, DecodedValuesAndSumsHaveTheBitsOfTheCpu) {
  for (const int64_t n : kSizes) {
    for (const Input& input : AllInputs(n, /*seed=*/84)) ExpectDecodesAsTheCpu(input, /*shift=*/0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaCodecTest, ElementsThatAreNotFiniteAreCounted) {
  for (const int64_t n : {1, 256, 5000}) {
    SCOPED_TRACE(testing::Message() << "n = " << n);
    Random random(/*seed=*/85);
    Input input = NormalInput(n, random);
    input.values[n - 1] = FLT_MAX;
    input.residual[n - 1] = FLT_MAX;
    input.values[0] = kNan;
    input.values[n / 2] = -kInfinity;
    const int64_t expected = n == 1 ? 1 : 3;
    const DeviceArray<char> scratch = PoisonedScratch(n);
    const Encoded encoded = Encode(input, TestKey(/*step=*/0), scratch, /*shift=*/0);
    EXPECT_EQ(encoded.result.non_finite, expected);
    if (GetParam().keeps_residual) {
      EXPECT_TRUE(HasSameBits(encoded.residual, input.residual));
    }
    // The next slice is none the worse.
    ExpectEncodesAsTheCpu(NormalInput(n, random), TestKey(/*step=*/1), scratch, /*shift=*/0);
  }
}

TEST_P(CudaCodecTest, NormsHaveTheSameBitsEachTime) {
  Random random(/*seed=*/86);
  const Input input = NormalInput(/*n=*/100003, random);
  const DeviceArray<char> scratch = PoisonedScratch(100003);
  const EncodeResult first = Encode(input, TestKey(0), scratch, /*shift=*/0).result;
  const EncodeResult second = Encode(input, TestKey(0), scratch, /*shift=*/1).result;
  EXPECT_EQ(first.gradient_sum_of_squares, second.gradient_sum_of_squares);
  EXPECT_EQ(first.residual_sum_of_squares, second.residual_sum_of_squares);
}

INSTANTIATE_TEST_SUITE_P(All, CudaCodecTest, testing::ValuesIn(AllTwins()),
                         [](const auto& info) { return info.param.name; });

// Without the other sizes: the emulator takes seconds.
class LargeCudaCodecTest : public CudaCodecTest {};

TEST_P(LargeCudaCodecTest, SameBitsBeyondOneGrid) {
  // A grid has at most 2,048 blocks of 2,048 elements.
  const int64_t n = int64_t{2048} * 2048 + 2049;
  Random random(/*seed=*/87);
  const std::vector<float> some = NormalVector(/*size=*/1048573, random);  // a prime
  Input input =
      MakeInput("repeated", n, [&, i = size_t{0}]() mutable { return some[i++ % some.size()]; });
  const DeviceArray<char> scratch = PoisonedScratch(n);
  ExpectEncodesAsTheCpu(input, TestKey(/*step=*/0), scratch, /*shift=*/0);
  ExpectDecodesAsTheCpu(input, /*shift=*/0);
}

TEST(ChangedValuesTest, ElementsAreReplacedAndTheOthersKeepTheirBits) {
  TestGpu gpu;
  Random random(/*seed=*/91);
  for (const int64_t n : {1, 257, 4099}) {
    const std::vector<float> from = NormalVector(n, random);
    std::vector<float> to = from;
    for (size_t i = 0; i < to.size(); i += 3) to[i] = -to[i];
    std::vector<uint8_t> bytes(ChangedBytes(CountChanged(from, to)));
    EncodeChanged(from, to, absl::MakeSpan(bytes));
    const DeviceArray<uint8_t> bytes_on_gpu(bytes, gpu);
    const DeviceArray<float> values(from, gpu);
    const auto count = static_cast<int64_t>(bytes.size() / ChangedBytes(1));
    ASSERT_TRUE(ReplaceElements(count, bytes_on_gpu.data(), values.data(), *gpu.stream).ok());
    EXPECT_TRUE(HasSameBits(values.Download(), to)) << n;
    ASSERT_TRUE(ReplaceElements(0, bytes_on_gpu.data(), values.data(), *gpu.stream).ok());
    EXPECT_TRUE(HasSameBits(values.Download(), to)) << "nothing has changed";
  }
}

INSTANTIATE_TEST_SUITE_P(All, LargeCudaCodecTest,
                         testing::Values(Bfloat16Twins(), Int8Twins(),
                                         TopkTwins("hundredth", 0.01, TopkValues::kInt8)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan
