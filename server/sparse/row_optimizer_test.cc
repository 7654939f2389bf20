// Every optimizer against its formula in float64, and with every kind of vectors.
#include "server/sparse/row_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/tensor/vector_targets.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

using Type = RowOptimizer::Type;
using Options = RowOptimizer::Options;
using Row = std::vector<double>;

constexpr int kUpdates = 12;
constexpr double kFactor = 0.5;
constexpr size_t kDims[] = {1, 2, 7, 8, 15, 16, 17, 32, 100};

Options OptionsOf(Type type) {
  Options options;
  options.type = type;
  options.learning_rate = 0.2;
  options.epsilon = 0.1;
  options.beta1 = 0.8;
  options.beta2 = 0.95;
  options.beta = 0.7;
  options.l1 = 0.6;
  options.l2 = 0.3;
  return options;
}

// The formulas. Each updates `w` and the state `s` by a row of gradients `g` at update `t`.

void Sgd(int /*t*/, const Row& g, Row& w, Row& /*s*/) {
  for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.2 * kFactor * g[i];
}

void Adagrad(int /*t*/, const Row& g, Row& w, Row& s) {
  for (size_t i = 0; i < w.size(); ++i) {
    s[i] += g[i] * g[i];
    w[i] -= 0.2 * kFactor * g[i] / (std::sqrt(s[i]) + 0.1);
  }
}

void RowAdagrad(int /*t*/, const Row& g, Row& w, Row& s) {
  double squares = 0;
  for (const double element : g) squares += element * element;
  s[0] += squares / static_cast<double>(g.size());
  for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.2 * kFactor * g[i] / (std::sqrt(s[0]) + 0.1);
}

void Adam(int t, const Row& g, Row& w, Row& s) {
  const size_t dim = w.size();
  for (size_t i = 0; i < dim; ++i) {
    s[i] = 0.8 * s[i] + 0.2 * g[i];
    s[dim + i] = 0.95 * s[dim + i] + 0.05 * g[i] * g[i];
    const double first = s[i] / (1 - std::pow(0.8, t));
    const double second = s[dim + i] / (1 - std::pow(0.95, t));
    w[i] -= 0.2 * kFactor * first / (std::sqrt(second) + 0.1);
  }
}

// As algorithm 1 has it: the value comes first, from the state. Here it comes last, for the pulls.
void Ftrl(int /*t*/, const Row& g, Row& w, Row& s) {
  const size_t dim = w.size();
  for (size_t i = 0; i < dim; ++i) {
    double& z = s[i];
    double& n = s[dim + i];
    const double sigma = (std::sqrt(n + g[i] * g[i]) - std::sqrt(n)) / 0.2;
    z += g[i] - sigma * w[i];
    n += g[i] * g[i];
    const double sign = z < 0 ? -1 : 1;
    w[i] = std::fabs(z) <= 0.6 ? 0 : -(z - sign * 0.6) / ((0.7 + std::sqrt(n)) / 0.2 + 0.3);
  }
}

struct Case {
  std::string name;
  Type type;
  void (*formula)(int t, const Row& g, Row& w, Row& s);
};

class RowOptimizerTest : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<RowOptimizer> Make(size_t dim) {
    auto optimizer = RowOptimizer::Create(OptionsOf(GetParam().type), dim);
    EXPECT_TRUE(optimizer.ok()) << optimizer.status();
    return *std::move(optimizer);
  }

  // Normal values, but FTRL's are 0; no state; and something behind.
  static std::vector<float> FirstRow(const RowOptimizer& optimizer, Random& random) {
    std::vector<float> row(optimizer.dim());
    if (optimizer.type() != Type::kFtrl) row = NormalVector(optimizer.dim(), random);
    row.resize(row.size() + optimizer.state_floats());
    row.push_back(77);
    return row;
  }

  // A row after `kUpdates` updates.
  static std::vector<float> Updated(const RowOptimizer& optimizer) {
    Random random(/*seed=*/5, /*stream=*/optimizer.dim());
    std::vector<float> row = FirstRow(optimizer, random);
    for (int t = 1; t <= kUpdates; ++t) {
      optimizer.Apply({NormalVector(optimizer.dim(), random).data()}, kFactor, {row.data()});
    }
    return row;
  }
};

TEST_P(RowOptimizerTest, FollowsItsFormulaInFloat64) {
  for (const size_t dim : kDims) {
    const auto optimizer = Make(dim);
    Random random(/*seed=*/5, /*stream=*/dim);
    const std::vector<float> first = FirstRow(*optimizer, random);
    Row w(first.begin(), first.begin() + dim), s(optimizer->state_floats());
    for (int t = 1; t <= kUpdates; ++t) {
      const std::vector<float> g = NormalVector(dim, random);
      GetParam().formula(t, Row(g.begin(), g.end()), w, s);
    }
    const std::vector<float> row = Updated(*optimizer);
    for (size_t i = 0; i < dim; ++i) EXPECT_NEAR(row[i], w[i], 1e-5) << "element " << i;
    EXPECT_EQ(row.back(), 77.0f);
  }
}

TEST_P(RowOptimizerTest, HasTheSameBitsWithEveryKindOfVectors) {
  for (const size_t dim : kDims) {
    const auto optimizer = Make(dim);
    const std::vector<float> expected = Updated(*optimizer);
    ForEachVectorTarget([&] { EXPECT_EQ(Updated(*optimizer), expected) << "dim " << dim; });
  }
}

TEST_P(RowOptimizerTest, ABatchIsItsUpdatesInOrder) {
  constexpr size_t kDim = 5;
  const auto optimizer = Make(kDim);
  Random random(/*seed=*/6);
  std::vector<float> batched[2] = {FirstRow(*optimizer, random), FirstRow(*optimizer, random)};
  std::vector<float> single[2] = {batched[0], batched[1]};
  const std::vector<float> memory = NormalVector(4 * kDim, random);
  const float* const gradients[] = {&memory[0], &memory[kDim], &memory[3 * kDim], &memory[kDim]};
  float* const rows[] = {batched[0].data(), nullptr, batched[1].data(), batched[0].data()};
  optimizer->Apply(gradients, kFactor, rows);
  optimizer->Apply({gradients[0]}, kFactor, {single[0].data()});
  optimizer->Apply({gradients[2]}, kFactor, {single[1].data()});
  optimizer->Apply({gradients[3]}, kFactor, {single[0].data()});
  EXPECT_EQ(batched[0], single[0]);
  EXPECT_EQ(batched[1], single[1]);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, RowOptimizerTest,
                         testing::Values(Case{"Sgd", Type::kSgd, Sgd},
                                         Case{"Adagrad", Type::kAdagrad, Adagrad},
                                         Case{"RowAdagrad", Type::kRowAdagrad, RowAdagrad},
                                         Case{"Adam", Type::kAdam, Adam},
                                         Case{"Ftrl", Type::kFtrl, Ftrl}),
                         [](const auto& info) { return info.param.name; });

TEST(RowOptimizerStateTest, IsAsLargeAsTheTypeNeeds) {
  const struct {
    Type type;
    size_t state_floats;
  } cases[] = {{Type::kSgd, 0},
               {Type::kAdagrad, 10},
               {Type::kRowAdagrad, 1},
               {Type::kAdam, 21},
               {Type::kFtrl, 20}};
  for (const auto& expected : cases) {
    const auto optimizer = RowOptimizer::Create(OptionsOf(expected.type), /*dim=*/10);
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    EXPECT_EQ((*optimizer)->state_floats(), expected.state_floats);
  }
}

TEST(RowOptimizerStateTest, AdamCorrectsByTheRowsOwnUpdatesHoweverManyTheyAre) {
  const auto optimizer = RowOptimizer::Create(OptionsOf(Type::kAdam), /*dim=*/1);
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();
  std::vector<float> old_row(4), new_row(4);
  const float one = 1;
  for (int t = 0; t < 2000; ++t) (*optimizer)->Apply({&one}, /*rate_factor=*/1, {old_row.data()});
  const float before = old_row[0];
  float* const rows[] = {old_row.data(), new_row.data()};
  (*optimizer)->Apply({&one, &one}, /*rate_factor=*/1, rows);
  // The gradient was always 1, so both corrected moments are 1.
  EXPECT_NEAR(old_row[0] - before, -0.2 / 1.1, 1e-4);
  EXPECT_NEAR(new_row[0], -0.2 / 1.1, 1e-5);
}

TEST(RowOptimizerOptionsTest, OutOfRangeIsRefusedWithItsName) {
  const struct {
    Type type;
    double Options::*option;
    double value;
    std::string name;
  } cases[] = {{Type::kSgd, &Options::learning_rate, 0, "learning_rate"},
               {Type::kAdagrad, &Options::epsilon, -1, "epsilon"},
               {Type::kRowAdagrad, &Options::epsilon, 0, "epsilon"},
               {Type::kAdam, &Options::beta1, 1, "beta1"},
               {Type::kAdam, &Options::beta2, std::numeric_limits<double>::quiet_NaN(), "beta2"},
               {Type::kFtrl, &Options::beta, 0, "beta"},
               {Type::kFtrl, &Options::l1, -1, "l1"},
               {Type::kFtrl, &Options::l2, 1e10, "l2"}};
  for (const auto& refused : cases) {
    Options options = OptionsOf(refused.type);
    options.*refused.option = refused.value;
    const absl::Status status = RowOptimizer::Create(options, /*dim=*/1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << refused.name;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(refused.name));
  }
}

}  // namespace
}  // namespace capstan
