#include "server/sparse/row_optimizer.h"

#include "kernels/optimizers.h"

// Compiles this file once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/sparse/row_optimizer.cc"
#include <glog/logging.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/job/optimizer_check.h"
#include "server/sparse/prefetch_row.h"

#ifndef SERVER_SPARSE_ROW_OPTIMIZER_RULES_
#define SERVER_SPARSE_ROW_OPTIMIZER_RULES_
namespace capstan {
namespace {

// One call of Apply.
struct RowUpdate {
  const RowOptimizer::Options& options;
  float learning_rate;
  absl::Span<const RowOptimizer::AdamCorrection> corrections;
  size_t dim;
  size_t floats_per_row;
  absl::Span<const float* const> gradients;
  absl::Span<float* const> rows;
};

// The rules that kernels/optimizers.h does not have:

struct FtrlRule {
  static constexpr int kStateCount = 2;

  float inverse_alpha;
  float beta;
  float l1;
  float l2;

  void operator()(float gradient, float& value, float& z, float& n) const {
    const float new_n = n + gradient * gradient;
    const float root = std::sqrt(new_n);
    z += gradient - (root - std::sqrt(n)) * inverse_alpha * value;
    n = new_n;
    const float beyond = std::fabs(z) - l1;
    const float shrunk = beyond > 0 ? beyond : 0.0f;
    // Subtracted from 0, so that a value of zero has no sign.
    value = 0.0f - std::copysign(shrunk, z) / ((beta + root) * inverse_alpha + l2);
  }
};

struct RowAdagradRule {
  float learning_rate;
  float epsilon;
};

// AdamRule with the constants of the row's own number of updates, which stands behind the moments.
struct LazyAdamRule {
  AdamRule rule;
  float learning_rate;
  absl::Span<const RowOptimizer::AdamCorrection> corrections;
};

}  // namespace
}  // namespace capstan
#endif  // SERVER_SPARSE_ROW_OPTIMIZER_RULES_

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// Rules that work element by element. `rule` is a copy: no store can change it.
template <typename Rule>
HWY_INLINE void UpdateRow(const Rule rule, size_t dim, const float* __restrict gradient,
                          float* __restrict row) {
  float* __restrict first = row + dim;
  float* __restrict second = row + 2 * dim;
  for (size_t i = 0; i < dim; ++i) {
    if constexpr (Rule::kStateCount == 0) rule(gradient[i], row[i]);
    if constexpr (Rule::kStateCount == 1) rule(gradient[i], row[i], first[i]);
    if constexpr (Rule::kStateCount == 2) rule(gradient[i], row[i], first[i], second[i]);
  }
}

// 8 sums, so that every kind of vectors adds in the same order.
HWY_INLINE float SumOfSquares(size_t n, const float* __restrict values) {
  float sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += values[i + j] * values[i + j];
  }
  for (size_t j = 0; i + j < n; ++j) sums[j] += values[i + j] * values[i + j];
  for (size_t width = 4; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

HWY_INLINE void UpdateRow(const RowAdagradRule rule, size_t dim, const float* __restrict gradient,
                          float* __restrict row) {
  float& square_sum = row[dim];
  square_sum += SumOfSquares(dim, gradient) / static_cast<float>(dim);
  const float rate = rule.learning_rate / (std::sqrt(square_sum) + rule.epsilon);
  for (size_t i = 0; i < dim; ++i) row[i] -= rate * gradient[i];
}

HWY_INLINE void UpdateRow(const LazyAdamRule& lazy, size_t dim, const float* __restrict gradient,
                          float* __restrict row) {
  uint32_t count;
  std::memcpy(&count, row + 3 * dim, sizeof(count));
  const RowOptimizer::AdamCorrection correction =
      lazy.corrections[std::min<size_t>(count, lazy.corrections.size() - 1)];
  if (count < UINT32_MAX) ++count;
  std::memcpy(row + 3 * dim, &count, sizeof(count));
  AdamRule rule = lazy.rule;
  rule.moments.step = lazy.learning_rate / correction.step_divisor;
  rule.moments.root_scale = correction.root_scale;
  UpdateRow(rule, dim, gradient, row);
}

template <typename Rule>
HWY_INLINE void UpdateRowsOf(const Rule& rule, const RowUpdate& update, size_t dim) {
  const size_t count = update.rows.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) PrefetchRow(update.rows[i + kRowsAhead], update.floats_per_row);
    if (update.rows[i] != nullptr) UpdateRow(rule, dim, update.gradients[i], update.rows[i]);
  }
}

// Common sizes are known to the compiler, which then needs no loop.
template <typename Rule>
void UpdateRows(const Rule& rule, const RowUpdate& update) {
  switch (update.dim) {
    case 1:
      return UpdateRowsOf(rule, update, 1);
    case 8:
      return UpdateRowsOf(rule, update, 8);
    case 16:
      return UpdateRowsOf(rule, update, 16);
    case 32:
      return UpdateRowsOf(rule, update, 32);
    default:
      return UpdateRowsOf(rule, update, update.dim);
  }
}

void Update(const RowUpdate& update) {
  const RowOptimizer::Options& options = update.options;
  const float rate = update.learning_rate;
  const auto epsilon = static_cast<float>(options.epsilon);
  switch (options.type) {
    case RowOptimizer::Type::kSgd:
      return UpdateRows(SgdRule{rate}, update);
    case RowOptimizer::Type::kAdagrad:
      return UpdateRows(AdagradRule{rate, epsilon}, update);
    case RowOptimizer::Type::kRowAdagrad:
      return UpdateRows(RowAdagradRule{rate, epsilon}, update);
    case RowOptimizer::Type::kAdam: {
      AdamRule rule;
      rule.moments.keep_first = static_cast<float>(options.beta1);
      rule.moments.add_first = static_cast<float>(1 - options.beta1);
      rule.moments.keep_second = static_cast<float>(options.beta2);
      rule.moments.add_second = static_cast<float>(1 - options.beta2);
      rule.moments.epsilon = epsilon;
      return UpdateRows(LazyAdamRule{rule, rate, update.corrections}, update);
    }
    case RowOptimizer::Type::kFtrl:
      return UpdateRows(
          FtrlRule{static_cast<float>(1 / options.learning_rate), static_cast<float>(options.beta),
                   static_cast<float>(options.l1), static_cast<float>(options.l2)},
          update);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {
namespace {

HWY_EXPORT(Update);

using Type = RowOptimizer::Type;

// Later corrections are within 2^-20 of 1 if beta2 is 0.99998 or less.
constexpr size_t kMaxCorrections = size_t{1} << 20;

absl::Status Check(const RowOptimizer::Options& options) {
  RETURN_IF_ERROR(CheckPositive("learning_rate", options.learning_rate));
  switch (options.type) {
    case Type::kSgd:
      return absl::OkStatus();
    case Type::kAdam:
      RETURN_IF_ERROR(CheckFraction("beta1", options.beta1));
      RETURN_IF_ERROR(CheckFraction("beta2", options.beta2));
      [[fallthrough]];
    case Type::kAdagrad:
    case Type::kRowAdagrad:
      return CheckPositive("epsilon", options.epsilon);
    case Type::kFtrl: {
      // It divides by the learning rate; and a denominator of 0 would make values of rows with
      // gradients of 0 alone.
      constexpr double kLeast = 1e-9;
      RETURN_IF_ERROR(CheckPositive("learning_rate", options.learning_rate, kLeast));
      RETURN_IF_ERROR(CheckPositive("beta", options.beta, kLeast));
      RETURN_IF_ERROR(CheckNotNegative("l1", options.l1));
      return CheckNotNegative("l2", options.l2);
    }
  }
  return absl::InvalidArgumentError("optimizer.type: expected a type of optimizer");
}

size_t StateFloats(Type type, size_t dim) {
  switch (type) {
    case Type::kSgd:
      return 0;
    case Type::kAdagrad:
      return dim;
    case Type::kRowAdagrad:
      return 1;
    case Type::kAdam:
      return 2 * dim + 1;
    case Type::kFtrl:
      return 2 * dim;
  }
  return 0;
}

// Until both have arrived at 1.
std::vector<RowOptimizer::AdamCorrection> MakeCorrections(double beta1, double beta2) {
  std::vector<RowOptimizer::AdamCorrection> corrections;
  double power1 = 1, power2 = 1;
  do {
    power1 *= beta1;
    power2 *= beta2;
    corrections.push_back(
        {static_cast<float>(1 - power1), static_cast<float>(1 / std::sqrt(1 - power2))});
  } while ((corrections.back().step_divisor != 1 || corrections.back().root_scale != 1) &&
           corrections.size() < kMaxCorrections);
  return corrections;
}

}  // namespace

RowOptimizer::RowOptimizer(const Options& options, size_t dim)
    : options_(options), dim_(dim), state_floats_(StateFloats(options.type, dim)) {
  if (options.type == Type::kAdam) corrections_ = MakeCorrections(options.beta1, options.beta2);
}

absl::StatusOr<std::unique_ptr<RowOptimizer>> RowOptimizer::Create(const Options& options,
                                                                   size_t dim) {
  CHECK_GT(dim, 0u);
  RETURN_IF_ERROR(Check(options));
  return std::unique_ptr<RowOptimizer>(new RowOptimizer(options, dim));
}

void RowOptimizer::Apply(absl::Span<const float* const> gradients, double rate_factor,
                         absl::Span<float* const> rows) const {
  CHECK_EQ(gradients.size(), rows.size());
  const auto rate = static_cast<float>(options_.learning_rate * rate_factor);
  HWY_DYNAMIC_DISPATCH(Update)
  ({options_, rate, corrections_, dim_, dim_ + state_floats_, gradients, rows});
}

}  // namespace capstan
#endif  // HWY_ONCE
