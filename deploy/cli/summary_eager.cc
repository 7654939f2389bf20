#include "deploy/cli/summary_eager.h"

#include "absl/strings/str_format.h"
#include "common/base/json_fields.h"
#include "deploy/cli/number_text.h"

namespace capstan {

using ::nlohmann::json;

std::string SummaryEagerText(const json& summary) {
  const json pulls = summary.value("eager_pulls", json());
  if (!pulls.is_object()) return "";
  const double at_once = NumberIn(pulls, "at_once");
  const double after_own_push = NumberIn(pulls, "after_own_push");
  const double after_others = NumberIn(pulls, "after_others");
  const double all = at_once + after_own_push + after_others;
  if (all <= 0) return "";
  return absl::StrFormat(
      "%.1f %% of %s pulls answered at once from the worker's cache, %.1f %% when its own push was "
      "back, %.1f %% when slower workers had caught up",
      100 * at_once / all, RoundedCountText(all), 100 * after_own_push / all,
      100 * after_others / all);
}

}  // namespace capstan
