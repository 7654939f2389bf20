#include "deploy/cli/summary_eager.h"

#include <cstdint>

#include "absl/strings/str_format.h"
#include "deploy/cli/number_text.h"

namespace capstan {
namespace {

using ::nlohmann::json;

double Number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

std::string SummaryEagerText(const json& summary) {
  const json pulls = summary.value("eager_pulls", json());
  if (!pulls.is_object()) return "";
  const double at_once = Number(pulls, "at_once");
  const double after_own_push = Number(pulls, "after_own_push");
  const double after_others = Number(pulls, "after_others");
  const double all = at_once + after_own_push + after_others;
  if (all <= 0) return "";
  return absl::StrFormat(
      "%.1f %% of %s pulls answered at once from the worker's cache, %.1f %% when its own push was "
      "back, %.1f %% when slower workers had caught up",
      100 * at_once / all, CountText(static_cast<uint64_t>(all)), 100 * after_own_push / all,
      100 * after_others / all);
}

}  // namespace capstan
