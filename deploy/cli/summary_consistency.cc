#include "deploy/cli/summary_consistency.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace capstan {
namespace {

using ::nlohmann::json;

std::string PeriodText(const json& period) {
  const json mode = period.value("consistency", json());
  if (!mode.is_string()) return "";
  std::string text = mode.get<std::string>();
  if (text != "ssp") return text;
  absl::StrAppend(&text, ", staleness ", period.value("staleness", json()).dump());
  std::vector<std::string> tables;
  const json own = period.value("table_staleness", json::object());
  for (const auto& [table, staleness] : own.items()) {
    tables.push_back(absl::StrCat(table, " ", staleness.dump()));
  }
  if (!tables.empty()) absl::StrAppend(&text, " (", absl::StrJoin(tables, ", "), ")");
  return text;
}

}  // namespace

std::string SummaryConsistencyText(const json& summary) {
  const json periods = summary.value("consistency_periods", json());
  if (!periods.is_array()) return "";
  std::string text;
  for (const json& period : periods) {
    if (!period.is_object()) return "";
    if (!text.empty()) {
      absl::StrAppend(&text, "; from step ", period.value("from_step", json()).dump(), " on: ");
    }
    text += PeriodText(period);
  }
  return text;
}

}  // namespace capstan
