#include "worker/models/training/mlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "proto/coordinator_service.pb.h"
#include "worker/models/training/model.h"
#include "worker/models/training/model_on_cpu.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMaxSamples = 17;

std::unique_ptr<ModelOnCpu> MakeMlp(const std::vector<int64_t>& widths,
                                    Precision precision = Precision::kFloat32) {
  return ModelOnCpu::Create(std::make_unique<Mlp<CpuStream>>(widths, precision), kMaxSamples)
      .value();
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One array for each table.
using Arrays = std::vector<std::vector<float>>;

std::vector<absl::Span<const float>> ReadOnly(const Arrays& arrays) {
  return {arrays.begin(), arrays.end()};
}
std::vector<absl::Span<float>> Writable(Arrays& arrays) { return {arrays.begin(), arrays.end()}; }

// Arrays of the tables' sizes; normal numbers of standard deviation `stddev`.
Arrays NormalArrays(const ModelOnCpu& model, float stddev, Random& random) {
  Arrays arrays;
  for (const v1::TableSpec& table : model.model().tables()) {
    uint64_t size = 1;
    for (const uint64_t extent : table.shape()) size *= extent;
    for (float& value : arrays.emplace_back(size)) value = stddev * random.Normal();
  }
  return arrays;
}

Arrays NanArrays(const ModelOnCpu& model) {
  Random unused(/*seed=*/1);
  return NormalArrays(model, /*stddev=*/kNan, unused);
}

struct Samples {
  std::vector<float> features;
  std::vector<int32_t> labels;
  Batch batch() const { return {features, labels}; }
};

Samples RandomSamples(int64_t count, int64_t features, int64_t classes, Random& random) {
  Samples samples;
  samples.features.resize(count * features);
  for (float& feature : samples.features) feature = random.Normal();
  samples.labels.resize(count);
  for (int32_t& label : samples.labels) label = static_cast<int32_t>(random.UniformInt(classes));
  return samples;
}

absl::Status DoNotWait(int) { return absl::OkStatus(); }

// Sum of the losses of all samples: the whole network in scalar float64, from the definitions.
double ReferenceLossSum(const std::vector<int64_t>& widths, const Samples& samples,
                        const std::vector<std::vector<double>>& parameters) {
  double loss_sum = 0;
  for (size_t sample = 0; sample < samples.labels.size(); ++sample) {
    const auto first = samples.features.begin() + static_cast<int64_t>(sample) * widths[0];
    std::vector<double> activations(first, first + widths[0]);
    for (size_t layer = 0; layer + 1 < widths.size(); ++layer) {
      std::vector<double> outputs = parameters[2 * layer + 1];
      for (int64_t out = 0; out < widths[layer + 1]; ++out) {
        for (int64_t in = 0; in < widths[layer]; ++in) {
          outputs[out] += activations[in] * parameters[2 * layer][in * widths[layer + 1] + out];
        }
        if (layer + 2 < widths.size()) outputs[out] = std::max(outputs[out], 0.0);
      }
      activations = std::move(outputs);
    }
    double sum = 0;
    for (const double score : activations) sum += std::exp(score);
    loss_sum += std::log(sum) - activations[samples.labels[sample]];
  }
  return loss_sum;
}

struct Reference {
  double loss_sum = 0;
  std::vector<std::vector<double>> gradients;  // of the mean loss, by central differences
};

Reference ComputeReference(const std::vector<int64_t>& widths, const Samples& samples,
                           const Arrays& arrays) {
  const double step = 1e-6;
  std::vector<std::vector<double>> parameters;
  for (const auto& array : arrays) parameters.emplace_back(array.begin(), array.end());
  Reference reference;
  reference.loss_sum = ReferenceLossSum(widths, samples, parameters);
  for (std::vector<double>& array : parameters) {
    std::vector<double>& gradient = reference.gradients.emplace_back();
    for (double& value : array) {
      const double before = value;
      value = before + step;
      const double above = ReferenceLossSum(widths, samples, parameters);
      value = before - step;
      const double below = ReferenceLossSum(widths, samples, parameters);
      value = before;
      gradient.push_back((above - below) / (2 * step) / static_cast<double>(samples.labels.size()));
    }
  }
  return reference;
}

void ExpectNear(const ModelOnCpu& model, const Arrays& gradients, const Reference& reference) {
  for (size_t table = 0; table < gradients.size(); ++table) {
    for (size_t i = 0; i < gradients[table].size(); ++i) {
      ASSERT_NEAR(gradients[table][i], reference.gradients[table][i], 2e-6)
          << model.model().tables()[table].name() << ", element " << i;
    }
  }
}

// Runs one step of `model` and compares loss and gradients with the reference.
void ExpectReferenceStep(const std::vector<int64_t>& widths, int64_t count, ModelOnCpu& model,
                         Random& random) {
  SCOPED_TRACE(testing::Message() << widths.size() - 1 << " layers, batch of " << count);
  const Arrays parameters = NormalArrays(model, /*stddev=*/0.5f, random);
  const Samples samples = RandomSamples(count, widths.front(), widths.back(), random);
  Arrays gradients = NanArrays(model);

  const auto result = model.Forward(samples.batch(), ReadOnly(parameters), DoNotWait);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(
      model.Backward(samples.batch(), ReadOnly(parameters), Writable(gradients), DoNotWait).ok());

  const Reference reference = ComputeReference(widths, samples, parameters);
  EXPECT_NEAR(result->loss_sum, reference.loss_sum, 2e-6 * static_cast<double>(count));
  ExpectNear(model, gradients, reference);
}

TEST(MlpTest, LossAndGradientsMatchNumericDifferentiation) {
  Random random(/*seed=*/41);
  const std::vector<std::vector<int64_t>> nets = {
      {4, 3}, {1, 1, 2}, {5, 7, 3}, {6, 9, 4, 5}, {3, 8, 8, 8, 2}};
  for (const std::vector<int64_t>& widths : nets) {
    const std::unique_ptr<ModelOnCpu> owner = MakeMlp(widths);
    ModelOnCpu& model = *owner;
    ExpectReferenceStep(widths, /*count=*/6, model, random);
  }
}

TEST(MlpTest, BatchSizeMayChangeFromCallToCall) {
  Random random(/*seed=*/42);
  const std::vector<int64_t> widths = {5, 7, 4, 3};
  const std::unique_ptr<ModelOnCpu> owner = MakeMlp(widths);
  ModelOnCpu& model = *owner;
  for (const int64_t count : {3, 1, 8, 2, 8, 17, 1}) {
    ExpectReferenceStep(widths, count, model, random);
  }
}

TEST(MlpTest, EmptyBatchHasNoLossAndNoGradient) {
  const std::unique_ptr<ModelOnCpu> owner = MakeMlp({5, 7, 3});
  ModelOnCpu& model = *owner;
  Random random(/*seed=*/43);
  const Arrays parameters = NormalArrays(model, /*stddev=*/0.5f, random);
  Arrays gradients = NanArrays(model);
  const auto result = model.Forward(Batch(), ReadOnly(parameters), DoNotWait);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->loss_sum, 0);
  EXPECT_EQ(result->correct, 0);
  ASSERT_TRUE(model.Backward(Batch(), ReadOnly(parameters), Writable(gradients), DoNotWait).ok());
  for (const auto& gradient : gradients) EXPECT_THAT(gradient, testing::Each(0.0f));
}

TEST(MlpTest, TablesSayNameShapeLayerAndInitialSpread) {
  const std::unique_ptr<ModelOnCpu> owner = MakeMlp({8, 6, 3});
  ModelOnCpu& model = *owner;
  const auto& layers = model.model().layers();
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers[0].name, "fc1");
  EXPECT_THAT(layers[0].tables, ElementsAre(0, 1));
  EXPECT_EQ(layers[1].name, "fc2");
  EXPECT_THAT(layers[1].tables, ElementsAre(2, 3));

  const std::vector<v1::TableSpec>& tables = model.model().tables();
  ASSERT_EQ(tables.size(), 4);
  EXPECT_EQ(tables[0].name(), "fc1.weight");
  EXPECT_THAT(tables[0].shape(), ElementsAre(8, 6));
  EXPECT_DOUBLE_EQ(tables[0].initial_stddev(), std::sqrt(2.0 / 8));
  EXPECT_EQ(tables[0].layer(), 0);
  EXPECT_EQ(tables[2].name(), "fc2.weight");
  EXPECT_THAT(tables[2].shape(), ElementsAre(6, 3));
  EXPECT_DOUBLE_EQ(tables[2].initial_stddev(), std::sqrt(1.0 / 6));
  EXPECT_EQ(tables[3].name(), "fc2.bias");
  EXPECT_THAT(tables[3].shape(), ElementsAre(3));
  EXPECT_EQ(tables[3].initial_stddev(), 0);
  EXPECT_EQ(tables[3].layer(), 1);
}

TEST(MlpTest, ForwardReadsALayerOnlyAfterWaitingForIt) {
  const std::vector<int64_t> widths = {5, 7, 4, 3};
  const std::unique_ptr<ModelOnCpu> owner = MakeMlp(widths);
  ModelOnCpu& model = *owner;
  Random random(/*seed=*/44);
  const Arrays arriving = NormalArrays(model, /*stddev=*/0.5f, random);
  const Samples samples = RandomSamples(/*count=*/4, widths.front(), widths.back(), random);
  Arrays parameters = NanArrays(model);
  std::vector<int> waited;

  const auto result = model.Forward(samples.batch(), ReadOnly(parameters), [&](int layer) {
    waited.push_back(layer);
    for (const int table : model.model().layers()[layer].tables) {
      std::copy(arriving[table].begin(), arriving[table].end(), parameters[table].begin());
    }
    return absl::OkStatus();
  });

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(waited, ElementsAre(0, 1, 2));
  EXPECT_NEAR(result->loss_sum, ComputeReference(widths, samples, arriving).loss_sum, 1e-5);
}

TEST(MlpTest, ErrorOfWaitingStopsForward) {
  const std::unique_ptr<ModelOnCpu> owner = MakeMlp({5, 7, 4, 3});
  ModelOnCpu& model = *owner;
  Random random(/*seed=*/45);
  const Arrays parameters = NormalArrays(model, /*stddev=*/0.5f, random);
  const Samples samples = RandomSamples(/*count=*/4, /*features=*/5, /*classes=*/3, random);
  std::vector<int> waited;
  const auto result = model.Forward(samples.batch(), ReadOnly(parameters), [&](int layer) {
    waited.push_back(layer);
    return layer == 1 ? absl::UnavailableError("server 2 is gone") : absl::OkStatus();
  });
  EXPECT_EQ(result.status(), absl::UnavailableError("server 2 is gone"));
  EXPECT_THAT(waited, ElementsAre(0, 1));
}

TEST(MlpTest, ReadyLayerHasItsGradientsAndItsParametersMayBeOverwritten) {
  const std::vector<int64_t> widths = {5, 7, 4, 3};
  const std::unique_ptr<ModelOnCpu> owner = MakeMlp(widths);
  ModelOnCpu& model = *owner;
  Random random(/*seed=*/46);
  Arrays parameters = NormalArrays(model, /*stddev=*/0.5f, random);
  const Samples samples = RandomSamples(/*count=*/4, widths.front(), widths.back(), random);
  const Reference reference = ComputeReference(widths, samples, parameters);
  Arrays gradients = NanArrays(model), sent = NanArrays(model);
  std::vector<int> ready;

  ASSERT_TRUE(model.Forward(samples.batch(), ReadOnly(parameters), DoNotWait).ok());
  const auto take_away = [&](int layer) {
    ready.push_back(layer);
    for (const int table : model.model().layers()[layer].tables) {
      sent[table] = gradients[table];
      std::fill(parameters[table].begin(), parameters[table].end(), kNan);
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(
      model.Backward(samples.batch(), ReadOnly(parameters), Writable(gradients), take_away).ok());

  EXPECT_THAT(ready, ElementsAre(2, 1, 0));
  ExpectNear(model, sent, reference);
}

TEST(MlpTest, GradientDescentLearnsExclusiveOr) {
  const std::unique_ptr<ModelOnCpu> owner = MakeMlp({2, 8, 2});
  ModelOnCpu& model = *owner;
  Random random(/*seed=*/48);
  Arrays parameters = NormalArrays(model, /*stddev=*/0.7f, random);
  Arrays gradients = NanArrays(model);
  const Samples samples = {{0, 0, 0, 1, 1, 0, 1, 1}, {0, 1, 1, 0}};
  absl::StatusOr<BatchResult> result;

  for (int step = 0; step < 1000; ++step) {
    result = model.Forward(samples.batch(), ReadOnly(parameters), DoNotWait);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(
        model.Backward(samples.batch(), ReadOnly(parameters), Writable(gradients), DoNotWait).ok());
    for (size_t table = 0; table < parameters.size(); ++table) {
      for (size_t i = 0; i < parameters[table].size(); ++i) {
        parameters[table][i] -= 0.5f * gradients[table][i];
      }
    }
  }

  EXPECT_EQ(result->correct, 4);
  EXPECT_LT(result->loss_sum / 4, 0.05);
}

// Loss and gradients of one step of a fixed network in `precision`.
std::pair<double, Arrays> StepIn(Precision precision) {
  const std::unique_ptr<ModelOnCpu> model = MakeMlp({40, 30, 5}, precision);
  Random random(/*seed=*/49);
  const Arrays parameters = NormalArrays(*model, /*stddev=*/0.3f, random);
  const Samples samples = RandomSamples(/*count=*/16, /*features=*/40, /*classes=*/5, random);
  Arrays gradients = NanArrays(*model);
  const double loss =
      model->Forward(samples.batch(), ReadOnly(parameters), DoNotWait).value().loss_sum;
  EXPECT_TRUE(
      model->Backward(samples.batch(), ReadOnly(parameters), Writable(gradients), DoNotWait).ok());
  return {loss, gradients};
}

TEST(MlpTest, Bfloat16RoundsTheInputsOfProductsOnly) {
  const auto [exact_loss, exact] = StepIn(Precision::kFloat32);
  const auto [loss, gradients] = StepIn(Precision::kBfloat16);
  // With 8 bits of mantissa, each factor is off by 2^-9 at most, and the errors of many terms
  // average. A hidden unit near 0 may still change its sign.
  EXPECT_NE(loss, exact_loss);
  EXPECT_NEAR(loss, exact_loss, 0x1p-6 * exact_loss);
  for (size_t table = 0; table < gradients.size(); ++table) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < gradients[table].size(); ++i) {
      difference += std::pow(double{gradients[table][i]} - exact[table][i], 2);
      norm += std::pow(exact[table][i], 2);
    }
    EXPECT_LT(std::sqrt(difference / norm), 0x1p-4) << "table " << table;
  }
}

TEST(MlpTest, Tf32IsFloat32OnACpu) {
  EXPECT_EQ(StepIn(Precision::kTf32), StepIn(Precision::kFloat32));
}

}  // namespace
}  // namespace capstan
