#include "common/job/optimizer_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

constexpr double kLargest = 1e9;

absl::Status OutOfRange(absl::string_view field, double value, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrFormat("optimizer.%s: expected %s, got %g; correct it", field, expected, value));
}

absl::Status CheckMoments(const Spec& spec) {
  RETURN_IF_ERROR(CheckFraction("beta1", spec.beta1()));
  RETURN_IF_ERROR(CheckFraction("beta2", spec.beta2()));
  return CheckPositive("epsilon", spec.epsilon());
}

absl::Status CheckDampening(double value) {
  if (value >= 0 && value <= 1) return absl::OkStatus();
  return OutOfRange("dampening", value, "a number from 0 to 1");
}

}  // namespace

absl::Status CheckPositive(absl::string_view field, double value, double least) {
  if (value >= least && value <= kLargest) return absl::OkStatus();
  return OutOfRange(field, value, absl::StrFormat("a number above 0 (%.2g to 1e9)", least));
}

absl::Status CheckNotNegative(absl::string_view field, double value) {
  if (value >= 0 && value <= kLargest) return absl::OkStatus();
  return OutOfRange(field, value, "0 or a number above it (up to 1e9)");
}

// Compared as float32: there 1 - 1e-9 is 1.
absl::Status CheckFraction(absl::string_view field, double value) {
  if (value >= 0 && value < 1 && static_cast<float>(value) < 1.0f) return absl::OkStatus();
  return OutOfRange(field, value, "a number that is at least 0 and, as float32, below 1");
}

absl::Status CheckDenseOptimizer(const Spec& spec) {
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate()));
  RETURN_IF_ERROR(CheckNotNegative("weight_decay", spec.weight_decay()));
  switch (spec.type()) {
    case Spec::SGD:
      return absl::OkStatus();
    case Spec::MOMENTUM:
      RETURN_IF_ERROR(CheckFraction("momentum", spec.momentum()));
      return CheckDampening(spec.dampening());
    case Spec::NESTEROV:
      return CheckFraction("momentum", spec.momentum());
    case Spec::ADAGRAD:
      return CheckPositive("epsilon", spec.epsilon());
    case Spec::ADAM:
    case Spec::ADAMW:
      return CheckMoments(spec);
    case Spec::RMSPROP:
      RETURN_IF_ERROR(CheckFraction("momentum", spec.momentum()));
      RETURN_IF_ERROR(CheckFraction("alpha", spec.alpha()));
      return CheckPositive("epsilon", spec.epsilon());
    case Spec::LION:
      RETURN_IF_ERROR(CheckFraction("beta1", spec.beta1()));
      return CheckFraction("beta2", spec.beta2());
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer.type: expected SGD, MOMENTUM, NESTEROV, ADAGRAD, ADAM, ADAMW, RMSPROP "
      "or LION for a dense table, got ",
      Spec::Type_Name(spec.type()), "; name one"));
}

std::vector<std::string> OptimizerArrayNames(const Spec& spec) {
  std::vector<std::string> names;
  switch (spec.type()) {
    case Spec::MOMENTUM:
    case Spec::NESTEROV:
      return {"momentum_buffer"};
    case Spec::ADAGRAD:
      return {"sum"};
    case Spec::LION:
      return {"exp_avg"};
    case Spec::ADAM:
    case Spec::ADAMW:
      names = {"exp_avg", "exp_avg_sq"};
      if (spec.amsgrad()) names.push_back("max_exp_avg_sq");
      return names;
    case Spec::RMSPROP:
      names = {"square_avg"};
      if (spec.centered()) names.push_back("grad_avg");
      if (HasMomentum(spec)) names.push_back("momentum_buffer");
      return names;
    case Spec::SGD:
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return names;
}

uint32_t OptimizerArrays(const Spec& spec) {
  return static_cast<uint32_t>(OptimizerArrayNames(spec).size());
}

bool HasMomentum(const Spec& spec) {
  switch (spec.type()) {
    case Spec::MOMENTUM:
    case Spec::NESTEROV:
    case Spec::ADAM:
    case Spec::ADAMW:
    case Spec::LION:
      return true;
    case Spec::RMSPROP:
      return spec.has_momentum() && spec.momentum() > 0;
    case Spec::SGD:
    case Spec::ADAGRAD:
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return false;
}

absl::Status CheckRowSettings(const Spec& spec) {
  if (spec.weight_decay() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.weight_decay: expected 0 for a sparse table, whose rows are touched "
        "in few steps, got ",
        spec.weight_decay(), "; use FTRL with l2"));
  }
  if (!spec.maximize() && !spec.amsgrad()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", spec.maximize() ? "maximize" : "amsgrad",
                   ": expected false for a sparse table, got true; give the table an optimizer "
                   "without"));
}

}  // namespace capstan
