#include "deploy/cli/summary.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/json_fields.h"
#include "deploy/cli/number_text.h"
#include "deploy/cli/summary_consistency.h"
#include "deploy/cli/tuning_text.h"

namespace capstan {
namespace {

using ::nlohmann::json;

enum class Unit {
  kText,
  kPercent,
  kReal,
  kCount,
  kSeconds,
  kMilliseconds,
  kBytes,
  kSamplesPerSecond
};

struct Row {
  const char* key;
  const char* label;
  Unit unit;
};

constexpr Row kRows[] = {
    {"test_accuracy", "test accuracy", Unit::kPercent},
    {"test_loss", "test loss", Unit::kReal},
    {"train_loss", "train loss", Unit::kReal},
    {"steps", "steps", Unit::kCount},
    {"seconds", "time", Unit::kSeconds},
    {"median_step_seconds", "median step", Unit::kMilliseconds},
    {"samples", "samples", Unit::kCount},
    {"samples_per_s", "speed", Unit::kSamplesPerSecond},
    {"bytes_pushed", "pushed", Unit::kBytes},
    {"bytes_pulled", "pulled", Unit::kBytes},
    {"mean_staleness_seen", "mean staleness", Unit::kReal},
    {"max_staleness_seen", "largest staleness", Unit::kCount},
    {"workers_lost", "workers lost", Unit::kCount},
    {"workers_replaced", "workers replaced", Unit::kCount},
    {"parameters_xxh3", "parameters' XXH3", Unit::kText},
};

std::string ValueText(const json& value, Unit unit) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return value.dump();
  const double number = value.get<double>();
  switch (unit) {
    case Unit::kPercent:
      return absl::StrFormat("%.2f %%", 100 * number);
    case Unit::kReal:
      return absl::StrFormat("%.4f", number);
    case Unit::kCount:
      return value.is_number_unsigned() ? CountText(value.get<uint64_t>()) : value.dump();
    case Unit::kSeconds:
      return absl::StrFormat("%.1f s", number);
    case Unit::kMilliseconds:
      return absl::StrFormat("%.2f ms", 1000 * number);
    case Unit::kBytes:
      return BytesText(number);
    case Unit::kSamplesPerSecond:
      return absl::StrCat(RoundedCountText(number), " samples/s");
    case Unit::kText:
      break;
  }
  return value.dump();
}

// "2 workers"; the count alone does not say of what.
std::string Counted(const json& summary, const char* key) {
  if (!summary.contains(key)) return "";
  return absl::StrCat(", ", ValueText(summary[key], Unit::kCount), " ", key);
}

// The consistency, while the job ran.
bool HasChanged(const json& summary) {
  return summary.value("consistency_periods", json()).size() > 1;
}

}  // namespace

absl::StatusOr<std::string> FormatSummary(absl::string_view json_text) {
  const json summary = ParseJson(json_text);
  if (!summary.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a summary as a JSON object, got \"", json_text.substr(0, 60), "\""));
  }
  std::string text = "job";
  if (summary.contains("job")) absl::StrAppend(&text, " ", ValueText(summary["job"], Unit::kText));
  absl::StrAppend(&text, " is done");
  if (summary.contains("consistency")) {
    absl::StrAppend(&text, ": ", ValueText(summary["consistency"], Unit::kText));
  }
  absl::StrAppend(&text, Counted(summary, "workers"), Counted(summary, "servers"), "\n");
  if (HasChanged(summary)) {
    absl::StrAppendFormat(&text, "  %-18s %s\n", "consistency", SummaryConsistencyText(summary));
  }
  for (const Row& row : kRows) {
    if (!summary.contains(row.key)) continue;
    absl::StrAppendFormat(&text, "  %-18s %s\n", row.label, ValueText(summary[row.key], row.unit));
  }
  if (const std::string tuning = SummaryTuningText(summary); !tuning.empty()) {
    absl::StrAppendFormat(&text, "  %-18s %s\n", "tuned", tuning);
  }
  if (summary.contains("warning")) {
    absl::StrAppend(&text, "warning: ", ValueText(summary["warning"], Unit::kText), "\n");
  }
  return text;
}

}  // namespace capstan
