#include "server/optimizer/make_optimizer.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "server/optimizer/adagrad.h"
#include "server/optimizer/adam.h"
#include "server/optimizer/adamw.h"
#include "server/optimizer/momentum.h"
#include "server/optimizer/nesterov.h"
#include "server/optimizer/sgd.h"

namespace capstan {
namespace {

// Bounds that keep every constant that an optimizer derives finite, and non-zero, in float32.
constexpr double kSmallest = std::numeric_limits<float>::min();
constexpr double kLargest = 1e9;

absl::Status OutOfRange(absl::string_view field, double value, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "optimizer.%s: expected %s, got %g; correct it in the job", field, expected, value));
}

absl::Status CheckPositive(absl::string_view field, double value) {
  if (value >= kSmallest && value <= kLargest) return absl::OkStatus();
  return OutOfRange(field, value, "a number above 0 (1.2e-38 to 1e9)");
}

// Compared as float32, in which 1 - 1e-9 is 1.
absl::Status CheckFraction(absl::string_view field, double value) {
  if (value >= 0 && value < 1 && static_cast<float>(value) < 1.0f) return absl::OkStatus();
  return OutOfRange(field, value, "a number that is at least 0 and, as float32, below 1");
}

absl::Status CheckRates(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate()));
  if (spec.weight_decay() >= 0 && spec.weight_decay() <= kLargest) return absl::OkStatus();
  return OutOfRange("weight_decay", spec.weight_decay(), "0 or a number above it (up to 1e9)");
}

template <typename T>
absl::StatusOr<std::unique_ptr<Optimizer>> MakeWithMomentum(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckFraction("momentum", spec.momentum()));
  typename T::Options options;
  options.learning_rate = spec.learning_rate();
  options.momentum = spec.momentum();
  options.weight_decay = spec.weight_decay();
  return std::make_unique<T>(options);
}

template <typename T>
absl::StatusOr<std::unique_ptr<Optimizer>> MakeWithMoments(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckFraction("beta1", spec.beta1()));
  RETURN_IF_ERROR(CheckFraction("beta2", spec.beta2()));
  RETURN_IF_ERROR(CheckPositive("epsilon", spec.epsilon()));
  typename T::Options options;
  options.learning_rate = spec.learning_rate();
  options.beta1 = spec.beta1();
  options.beta2 = spec.beta2();
  options.epsilon = spec.epsilon();
  options.weight_decay = spec.weight_decay();
  return std::make_unique<T>(options);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeSgd(const v1::OptimizerSpec& spec) {
  Sgd::Options options;
  options.learning_rate = spec.learning_rate();
  options.weight_decay = spec.weight_decay();
  return std::make_unique<Sgd>(options);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdagrad(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckPositive("epsilon", spec.epsilon()));
  Adagrad::Options options;
  options.learning_rate = spec.learning_rate();
  options.epsilon = spec.epsilon();
  options.weight_decay = spec.weight_decay();
  return std::make_unique<Adagrad>(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckRates(spec));
  switch (spec.type()) {
    case v1::OptimizerSpec::SGD:
      return MakeSgd(spec);
    case v1::OptimizerSpec::MOMENTUM:
      return MakeWithMomentum<Momentum>(spec);
    case v1::OptimizerSpec::NESTEROV:
      return MakeWithMomentum<Nesterov>(spec);
    case v1::OptimizerSpec::ADAGRAD:
      return MakeAdagrad(spec);
    case v1::OptimizerSpec::ADAM:
      return MakeWithMoments<Adam>(spec);
    case v1::OptimizerSpec::ADAMW:
      return MakeWithMoments<AdamW>(spec);
    case v1::OptimizerSpec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer.type: expected SGD, MOMENTUM, NESTEROV, ADAGRAD, ADAM or ADAMW, got "
      "TYPE_UNSPECIFIED; name one in the job");
}

}  // namespace capstan
