// What every optimizer promises, over all types that a job can name.
#include "common/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "kernels/normal_vector.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

// The values of a tensor with the state that its optimizer keeps.
struct Parameters {
  std::vector<float> values;
  std::vector<std::vector<float>> state;

  absl::Span<float> Values(size_t offset, size_t size) {
    return absl::MakeSpan(values).subspan(offset, size);
  }
  std::vector<absl::Span<float>> State(size_t offset, size_t size) {
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& array : state) {
      spans.push_back(absl::MakeSpan(array).subspan(offset, size));
    }
    return spans;
  }
};

bool HasSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<int> AllTypes() {
  std::vector<int> types;
  for (int type = Spec::TYPE_UNSPECIFIED + 1; type <= Spec::Type_MAX; ++type) {
    const bool is_sparse = type == Spec::ROW_ADAGRAD || type == Spec::FTRL;
    if (Spec::Type_IsValid(type) && !is_sparse) types.push_back(type);
  }
  return types;
}

class OptimizerConformanceTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Optimizer> Make(double weight_decay) const {
    Spec spec;
    spec.set_type(static_cast<Spec::Type>(GetParam()));
    spec.set_weight_decay(weight_decay);
    auto optimizer = MakeOptimizer(spec);
    EXPECT_TRUE(optimizer.ok()) << optimizer.status();
    return *std::move(optimizer);
  }

  static Parameters MakeParameters(const Optimizer& optimizer, std::vector<float> values) {
    const size_t size = values.size();
    return {std::move(values),
            std::vector<std::vector<float>>(optimizer.state_count(), std::vector<float>(size))};
  }

  static void ApplyPart(const Optimizer& optimizer, const std::vector<float>& gradient,
                        int64_t application, size_t offset, size_t size, Parameters& parameters) {
    optimizer.Apply(absl::MakeSpan(gradient).subspan(offset, size), {application},
                    parameters.Values(offset, size), parameters.State(offset, size));
  }
};

TEST_P(OptimizerConformanceTest, SlicingDoesNotChangeABit) {
  const size_t size = 1000;
  const auto optimizer = Make(/*weight_decay=*/0.01);
  Random random(/*seed=*/3);
  Parameters whole = MakeParameters(*optimizer, NormalVector(size, random));
  Parameters sliced = whole;
  Parameters single = whole;

  for (int64_t application = 1; application <= 5; ++application) {
    const std::vector<float> gradient = NormalVector(size, random);
    ApplyPart(*optimizer, gradient, application, /*offset=*/0, size, whole);
    size_t offset = 0;
    for (const size_t part : {1, 2, 3, 5, 13, 64, 127, 0, 785}) {
      ApplyPart(*optimizer, gradient, application, offset, part, sliced);
      offset += part;
    }
    ASSERT_EQ(offset, size);
    for (size_t i = 0; i < size; ++i) {
      ApplyPart(*optimizer, gradient, application, /*offset=*/i, /*size=*/1, single);
    }
  }

  EXPECT_TRUE(HasSameBits(whole.values, sliced.values));
  EXPECT_TRUE(HasSameBits(whole.values, single.values));
  for (int i = 0; i < optimizer->state_count(); ++i) {
    EXPECT_TRUE(HasSameBits(whole.state[i], sliced.state[i])) << "state " << i;
    EXPECT_TRUE(HasSameBits(whole.state[i], single.state[i])) << "state " << i;
  }
}

TEST_P(OptimizerConformanceTest, ADividedLearningRateIsThatOfAJobWithASmallerOne) {
  const size_t size = 100;
  Spec spec;
  spec.set_type(static_cast<Spec::Type>(GetParam()));
  spec.set_weight_decay(0.01);
  spec.set_learning_rate(0.5);
  const auto divided = MakeOptimizer(spec).value();
  spec.set_learning_rate(0.5 / 6);
  const auto smaller = MakeOptimizer(spec).value();
  Random random(/*seed=*/5);
  Parameters values = MakeParameters(*divided, NormalVector(size, random));
  Parameters expected = values;

  for (int64_t application = 1; application <= 5; ++application) {
    const std::vector<float> gradient = NormalVector(size, random);
    divided->Apply(gradient, {application, /*learning_rate_divisor=*/6}, values.Values(0, size),
                   values.State(0, size));
    ApplyPart(*smaller, gradient, application, /*offset=*/0, size, expected);
  }

  EXPECT_TRUE(HasSameBits(values.values, expected.values));
}

TEST_P(OptimizerConformanceTest, ALearningRateOfAnApplicationIsThatOfAJobWithIt) {
  const size_t size = 100;
  Spec spec;
  spec.set_type(static_cast<Spec::Type>(GetParam()));
  spec.set_weight_decay(0.01);
  spec.set_learning_rate(0.5);
  const auto replaced = MakeOptimizer(spec).value();
  spec.set_learning_rate(0.125);
  const auto smaller = MakeOptimizer(spec).value();
  Random random(/*seed=*/6);
  Parameters values = MakeParameters(*replaced, NormalVector(size, random));
  Parameters expected = values;

  for (int64_t application = 1; application <= 5; ++application) {
    const std::vector<float> gradient = NormalVector(size, random);
    const uint64_t divisor = static_cast<uint64_t>(application);
    replaced->Apply(gradient, {application, divisor, {/*learning_rate=*/0.125}},
                    values.Values(0, size), values.State(0, size));
    smaller->Apply(gradient, {application, divisor}, expected.Values(0, size),
                   expected.State(0, size));
  }

  EXPECT_TRUE(HasSameBits(values.values, expected.values));
}

// Under Adam the bias correction has it, too.
TEST_P(OptimizerConformanceTest, AMomentumOfAnApplicationIsThatOfAJobWithIt) {
  const size_t size = 100;
  Spec spec;
  spec.set_type(static_cast<Spec::Type>(GetParam()));
  spec.set_weight_decay(0.01);
  spec.set_momentum(0.5);
  spec.set_beta1(0.5);
  const auto replaced = MakeOptimizer(spec).value();
  Random random(/*seed=*/8);
  Parameters values = MakeParameters(*replaced, NormalVector(size, random));
  Parameters expected = values;

  for (int64_t application = 1; application <= 5; ++application) {
    const std::vector<float> gradient = NormalVector(size, random);
    const double momentum = 0.9 - 0.15 * static_cast<double>(application);
    replaced->Apply(gradient, {application, 1, {std::nullopt, momentum}}, values.Values(0, size),
                    values.State(0, size));
    spec.set_momentum(momentum);
    spec.set_beta1(momentum);
    ApplyPart(*MakeOptimizer(spec).value(), gradient, application, /*offset=*/0, size, expected);
  }

  EXPECT_TRUE(HasSameBits(values.values, expected.values));
  for (int i = 0; i < replaced->state_count(); ++i) {
    EXPECT_TRUE(HasSameBits(values.state[i], expected.state[i])) << "state " << i;
  }
  const bool has_none = GetParam() == Spec::SGD || GetParam() == Spec::ADAGRAD;
  EXPECT_EQ(replaced->has_momentum(), !has_none);
}

TEST_P(OptimizerConformanceTest, ALearningRateOfZeroKeepsTheValues) {
  const auto optimizer = Make(/*weight_decay=*/0.01);
  Random random(/*seed=*/7);
  const std::vector<float> before = NormalVector(40, random);
  Parameters parameters = MakeParameters(*optimizer, before);
  optimizer->Apply(NormalVector(40, random), {1, 1, {/*learning_rate=*/0}},
                   parameters.Values(0, 40), parameters.State(0, 40));
  EXPECT_EQ(parameters.values, before);
}

TEST_P(OptimizerConformanceTest, AnEmptySliceChangesNothing) {
  const auto optimizer = Make(/*weight_decay=*/0.01);
  const std::vector<float> gradient(30, 1.0f);
  Parameters parameters = MakeParameters(*optimizer, std::vector<float>(30, 2.0f));
  const Parameters before = parameters;
  ApplyPart(*optimizer, gradient, /*application=*/1, /*offset=*/7, /*size=*/0, parameters);
  EXPECT_EQ(parameters.values, before.values);
  EXPECT_EQ(parameters.state, before.state);
}

TEST_P(OptimizerConformanceTest, NeighboursOfTheSliceStayUntouched) {
  const auto optimizer = Make(/*weight_decay=*/0.01);
  const std::vector<float> gradient(30, 1.0f);
  Parameters parameters = MakeParameters(*optimizer, std::vector<float>(30, 2.0f));
  ApplyPart(*optimizer, gradient, /*application=*/1, /*offset=*/7, /*size=*/11, parameters);
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(parameters.values[i] != 2.0f, i >= 7 && i < 18) << "element " << i;
  }
}

TEST_P(OptimizerConformanceTest, ZeroGradientWithoutDecayChangesNothing) {
  const auto optimizer = Make(/*weight_decay=*/0);
  Random random(/*seed=*/4);
  const std::vector<float> before = NormalVector(33, random);
  Parameters parameters = MakeParameters(*optimizer, before);
  for (int64_t application = 1; application <= 3; ++application) {
    ApplyPart(*optimizer, std::vector<float>(33), application, /*offset=*/0, /*size=*/33,
              parameters);
  }
  EXPECT_TRUE(HasSameBits(parameters.values, before));
}

TEST_P(OptimizerConformanceTest, WeightDecayAloneShrinksTheValues) {
  const auto optimizer = Make(/*weight_decay=*/0.1);
  Parameters parameters = MakeParameters(*optimizer, {1.0f, -1.0f});
  ApplyPart(*optimizer, std::vector<float>(2), /*application=*/1, /*offset=*/0, /*size=*/2,
            parameters);
  EXPECT_LT(parameters.values[0], 1.0f);
  EXPECT_GT(parameters.values[1], -1.0f);
}

TEST_P(OptimizerConformanceTest, FindsTheMinimumOfAParabola) {
  const auto optimizer = Make(/*weight_decay=*/0);
  Parameters parameters = MakeParameters(*optimizer, {1.0f, -0.5f, 0.25f});
  for (int64_t application = 1; application <= 2000; ++application) {
    const std::vector<float> gradient = parameters.values;
    ApplyPart(*optimizer, gradient, application, /*offset=*/0, /*size=*/3, parameters);
  }
  // The last steps of some are as large as the learning rate.
  const bool has_equal_steps = GetParam() == Spec::RMSPROP || GetParam() == Spec::LION;
  const float error = has_equal_steps ? 1.2f * static_cast<float>(Spec().learning_rate()) : 1e-3f;
  for (const float value : parameters.values) EXPECT_NEAR(value, 0.0f, error);
}

TEST_P(OptimizerConformanceTest, LateApplicationIsFinite) {
  const auto optimizer = Make(/*weight_decay=*/0);
  Parameters parameters = MakeParameters(*optimizer, {1.0f});
  ApplyPart(*optimizer, {1.0f}, /*application=*/int64_t{1} << 40, /*offset=*/0, /*size=*/1,
            parameters);
  EXPECT_LT(parameters.values[0], 1.0f);
  EXPECT_GT(parameters.values[0], 0.0f);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, OptimizerConformanceTest, testing::ValuesIn(AllTypes()),
                         [](const testing::TestParamInfo<int>& type) {
                           return Spec::Type_Name(static_cast<Spec::Type>(type.param));
                         });

TEST(OptimizerDeathTest, DiesOfUnequalLengthsAndOfMissingState) {
  Spec spec;
  spec.set_type(Spec::ADAM);
  const auto adam = MakeOptimizer(spec).value();
  const auto apply = [&](size_t gradient_size, const std::vector<size_t>& state_sizes) {
    std::vector<float> array(8);
    std::vector<absl::Span<float>> state;
    for (const size_t size : state_sizes) state.push_back(absl::MakeSpan(array.data(), size));
    adam->Apply(absl::MakeSpan(array.data(), gradient_size), Application(), absl::MakeSpan(array),
                state);
  };
  EXPECT_DEATH(apply(/*gradient_size=*/7, /*state_sizes=*/{8, 8}), "7 vs. 8");
  EXPECT_DEATH(apply(/*gradient_size=*/8, /*state_sizes=*/{8, 6}), "6 vs. 8");
  EXPECT_DEATH(apply(/*gradient_size=*/8, /*state_sizes=*/{8}), "1 vs. 2");
}

}  // namespace
}  // namespace capstan
