#include "server/shard/check_step.h"

#include <cstdint>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/exchange/rates.h"
#include "common/job/optimizer_check.h"

namespace capstan {
namespace {

// INVALID_ARGUMENT: rows and gradient, or rows and pull, do not go together.
absl::Status CheckRows(const RowStep& step) {
  const bool has_gradient = step.push.has_value() && step.push->gradient.has_value();
  const uint32_t pushed = step.pushed_keys.rows;
  const uint32_t pulled = step.pulled_keys.rows;
  if (has_gradient != (pushed > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected rows with a gradient, and none in an empty push or without a push, "
                     "got ",
                     pushed, " rows"));
  }
  if (!step.pull.has_value() && pulled > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a pull with its rows, got ", pulled, " rows without a pull"));
  }
  return absl::OkStatus();
}

absl::Status CheckRates(const Rates& rates) {
  const double rate = rates.learning_rate.value_or(0);
  if (rate >= 0 && rate <= std::numeric_limits<float>::max()) {
    return CheckFraction("momentum", rates.momentum.value_or(0));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a finite learning rate of 0 or more, got ", rate));
}

}  // namespace

absl::Status CheckStep(const ExchangeRequest& request) {
  if (const auto* rows = std::get_if<RowStep>(&request.purpose)) RETURN_IF_ERROR(CheckRows(*rows));
  const StepPush* const push = PushOf(request);
  const StepPull* const pull = PullOf(request);
  if (IsStep(request) && push == nullptr && pull == nullptr) {
    return absl::InvalidArgumentError("expected a push, a pull or both, got neither");
  }
  if ((push != nullptr && push->step < Step(0)) || (pull != nullptr && pull->step < Step(0))) {
    return absl::InvalidArgumentError("expected steps from 0, got a negative one");
  }
  return push == nullptr ? absl::OkStatus() : CheckRates(push->rates);
}

}  // namespace capstan
