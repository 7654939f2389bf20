#include "kernels/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cuda/device_array.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Samples and classes: around the tile of 128 samples and 32 classes, each way to hold a row in
// registers with and without packs of 4, and rows that fit none.
constexpr int64_t kSizes[][2] = {
    {0, 3},     {1, 1},     {1, 2},     {7, 3},     {127, 10},  {128, 10},  {129, 10}, {300, 16},
    {129, 20},  {300, 31},  {130, 32},  {33, 33},   {5, 36},    {40, 64},   {33, 65},  {9, 100},
    {33, 256},  {9, 257},   {9, 300},   {9, 1000},  {9, 1001},  {17, 1024}, {3, 1025}, {3, 1100},
    {3, 2047},  {3, 2048},  {3, 2049},  {3, 4096},  {2, 4100},  {2, 8191},  {2, 8192}, {2, 8193},
    {2, 16384}, {7, 20000}, {5, 32768}, {5, 32767}, {2, 32769}, {2, 40000}, {2, 40001}};

struct Batch {
  int64_t classes;
  std::vector<float> scores;
  std::vector<int32_t> labels;
  int64_t samples() const { return static_cast<int64_t>(labels.size()); }
};

struct Output {
  SoftmaxCrossEntropyResult result;
  std::vector<float> gradient;
};

// Every third label has the highest score, in turn with an equal behind it and one before it.
Batch RandomBatch(int64_t samples, int64_t classes) {
  Random random(/*seed=*/95, /*stream=*/static_cast<uint64_t>(classes));
  Batch batch = {classes, std::vector<float>(samples * classes), std::vector<int32_t>(samples)};
  for (float& score : batch.scores) score = 3 * random.Normal();
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t label = static_cast<int64_t>(random.UniformInt(classes));
    batch.labels[sample] = static_cast<int32_t>(label);
    float* const row = &batch.scores[sample * classes];
    if (sample % 3 == 0) row[label] = 15.0f;
    if (sample % 6 == 0) row[classes - 1] = 15.0f;
    if (sample % 6 == 3) row[0] = 15.0f;
  }
  return batch;
}

Output OnCpu(const Batch& batch) {
  CpuStream stream;
  Output output;
  output.gradient.assign(batch.scores.size(), kNan);
  EXPECT_TRUE(SoftmaxCrossEntropy(batch.samples(), batch.classes, batch.scores.data(),
                                  batch.labels.data(), output.gradient.data(), &output.result,
                                  /*scratch=*/nullptr, stream)
                  .ok());
  return output;
}

class CudaSoftmaxCrossEntropyTest : public testing::Test {
 protected:
  Output OnGpu(const Batch& batch, size_t shift = 0, bool in_place = false) {
    const DeviceArray<float> scores(batch.scores, gpu_, shift);
    const DeviceArray<float> separate(std::vector<float>(batch.scores.size(), kNan), gpu_, shift);
    const DeviceArray<float>& gradient = in_place ? scores : separate;
    const DeviceArray<int32_t> labels(batch.labels, gpu_);
    const DeviceArray<SoftmaxCrossEntropyResult> result({{kNan, /*correct=*/-1}}, gpu_);
    const DeviceArray<char> scratch(
        std::vector<char>(
            SoftmaxCrossEntropyScratchBytes(batch.samples(), batch.classes, *gpu_.stream), -1),
        gpu_);
    EXPECT_TRUE(SoftmaxCrossEntropy(batch.samples(), batch.classes, scores.data(), labels.data(),
                                    gradient.data(), result.data(), scratch.data(), *gpu_.stream)
                    .ok());
    scratch.Download();
    return {result.Download()[0], gradient.Download()};
  }

  void ExpectTwin(const Batch& batch, size_t shift) {
    SCOPED_TRACE(testing::Message() << batch.samples() << " samples, " << batch.classes
                                    << " classes, shift " << shift);
    const Output expected = OnCpu(batch);
    const Output output = OnGpu(batch, shift);
    for (size_t i = 0; i < expected.gradient.size(); ++i) {
      // CUDA promises exponentials to 2 units in the last place: 4 x 2^-24, and as much of their
      // sum. 4 x 2^-24 are left for roundings: of the sum, the quotient, the scale and the result.
      // The label's bound is absolute, because its terms cancel.
      const double scale = 1.0 / static_cast<double>(batch.samples());
      const bool is_label = static_cast<int64_t>(i) % batch.classes ==
                            batch.labels[static_cast<int64_t>(i) / batch.classes];
      const double magnitude = is_label ? scale : std::abs(expected.gradient[i]);
      ASSERT_NEAR(output.gradient[i], expected.gradient[i], 12 * 0x1p-24 * magnitude + 1e-45)
          << "element " << i;
    }
    // Each sample's exponentials are off by 4 units at most, and so their logarithm by as much.
    EXPECT_NEAR(output.result.loss_sum, expected.result.loss_sum,
                static_cast<double>(batch.samples()) * 4 * 0x1p-24);
    EXPECT_EQ(output.result.correct, expected.result.correct);
  }

  TestGpu gpu_;
};

TEST_F(CudaSoftmaxCrossEntropyTest, AgreesWithTheCpuAtAllSizes) {
  for (const auto& size : kSizes) {
    const Batch batch = RandomBatch(/*samples=*/size[0], /*classes=*/size[1]);
    ExpectTwin(batch, /*shift=*/0);
    ExpectTwin(batch, /*shift=*/1);
  }
}

TEST_F(CudaSoftmaxCrossEntropyTest, AgreesWithTheCpuBeyondOneGrid) {
  // 4,096 blocks of 128 samples in shared memory, and of 32 in registers.
  ExpectTwin(RandomBatch(/*samples=*/4096 * 128 + 5, /*classes=*/2), /*shift=*/0);
  ExpectTwin(RandomBatch(/*samples=*/4096 * 32 + 5, /*classes=*/33), /*shift=*/0);
}

TEST_F(CudaSoftmaxCrossEntropyTest, SameInputGivesTheSameBitsAlsoInPlace) {
  for (const int64_t classes : {10, 50, 1000, 5000, 40000}) {
    const Batch batch = RandomBatch(/*samples=*/classes < 5000 ? 133 : 3, classes);
    const Output first = OnGpu(batch);
    for (const bool in_place : {false, true}) {
      const Output again = OnGpu(batch, /*shift=*/0, in_place);
      EXPECT_TRUE(HasSameBits(again.gradient, first.gradient));
      EXPECT_EQ(again.result.loss_sum, first.result.loss_sum);
      EXPECT_EQ(again.result.correct, first.result.correct);
    }
  }
}

TEST_F(CudaSoftmaxCrossEntropyTest, NanAndInfinityShowInTheLossAndNanIsNeverCorrect) {
  for (const int64_t classes : {3, 50, 1000, 5000, 40000}) {
    for (const float bad : {kNan, kInfinity}) {
      for (const int64_t place : {int64_t{0}, classes / 2, classes - 1}) {
        Batch batch = RandomBatch(/*samples=*/1, classes);
        batch.scores[place] = bad;
        for (const int64_t label : {int64_t{0}, classes / 2, classes - 1}) {
          SCOPED_TRACE(testing::Message()
                       << classes << " classes, " << bad << " at " << place << ", label " << label);
          batch.labels[0] = static_cast<int32_t>(label);
          const Output output = OnGpu(batch);
          EXPECT_FALSE(std::isfinite(output.result.loss_sum));
          EXPECT_EQ(output.result.correct, 0);
          for (const float gradient : output.gradient) ASSERT_TRUE(std::isnan(gradient));
        }
      }
    }
    Batch all_nan = {classes, std::vector<float>(classes, kNan), {0}};
    EXPECT_EQ(OnGpu(all_nan).result.correct, 0);
    EXPECT_TRUE(std::isnan(OnGpu(all_nan).result.loss_sum));
  }
}

TEST_F(CudaSoftmaxCrossEntropyTest, HugeScoresStayFinite) {
  for (const int64_t classes : {2, 40, 5000, 40000}) {
    Batch batch = {classes, std::vector<float>(classes, -3e38f), {1}};
    batch.scores[0] = 3e38f;
    const Output output = OnGpu(batch);
    EXPECT_EQ(output.gradient[0], 1.0f);
    EXPECT_EQ(output.gradient[1], -1.0f);
    EXPECT_NEAR(output.result.loss_sum / 6e38, 1.0, 1e-6);
  }
}

TEST_F(CudaSoftmaxCrossEntropyTest, MinusInfinityHasTheProbabilityZero) {
  for (const int64_t classes : {10, 50, 1000, 2000, 5000, 40000}) {
    Batch batch = {
        classes, std::vector<float>(classes, -kInfinity), {static_cast<int32_t>(classes - 1)}};
    EXPECT_TRUE(std::isnan(OnGpu(batch).result.loss_sum)) << classes;
    EXPECT_EQ(OnGpu(batch).result.correct, 0) << classes;
    for (int64_t i = classes / 2; i < classes; ++i) batch.scores[i] = 1;
    const Output output = OnGpu(batch);
    EXPECT_NEAR(output.result.loss_sum, std::log(classes / 2.0), 1e-6) << classes;
    EXPECT_EQ(output.result.correct, 0) << "the first of the equal ones is the answer";
    for (int64_t i = 0; i < classes / 2; ++i) ASSERT_EQ(output.gradient[i], 0) << i;
    EXPECT_NEAR(output.gradient[classes / 2], 2.0 / classes, 1e-6 / classes);
  }
}

TEST_F(CudaSoftmaxCrossEntropyTest, LabelThatIsNoClassMakesTheLossNan) {
  for (const int64_t classes : {3, 50, 1000, 5000, 40000}) {
    for (const int64_t label : {int64_t{-1}, classes, int64_t{INT32_MAX}, int64_t{INT32_MIN}}) {
      Batch batch = RandomBatch(/*samples=*/3, classes);
      const int64_t correct = OnCpu({classes, batch.scores, batch.labels}).result.correct;
      ASSERT_GE(correct, 1);  // the first sample
      batch.labels[0] = static_cast<int32_t>(label);
      const Output output = OnGpu(batch);
      EXPECT_TRUE(std::isnan(output.result.loss_sum)) << classes << " classes, label " << label;
      EXPECT_LT(output.result.correct, correct);
    }
  }
}

}  // namespace
}  // namespace capstan
