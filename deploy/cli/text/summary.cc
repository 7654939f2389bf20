#include "deploy/cli/text/summary.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/json_fields.h"
#include "common/job/field_text.h"
#include "common/job/job_properties.h"
#include "deploy/cli/text/number_text.h"

namespace capstan {
namespace {

using ::nlohmann::json;

enum class Unit {
  kText,
  kPercent,
  kReal,
  kOfValues,
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
    {"model", "model", Unit::kText},
    {"test_accuracy", "test accuracy", Unit::kPercent},
    {"test_loss", "test loss", Unit::kReal},
    {"test_auc", "test AUC", Unit::kReal},
    {"best_auc", "best possible AUC", Unit::kReal},
    {"nonzero_weights", "weights not 0", Unit::kPercent},
    {"train_loss", "train loss", Unit::kReal},
    {"steps", "steps", Unit::kCount},
    {"local_steps", "local steps", Unit::kCount},
    {"sync_every", "steps of a round", Unit::kCount},
    {"round_seconds", "time of a round", Unit::kSeconds},
    {"drift", "drift", Unit::kOfValues},
    {"seconds", "time", Unit::kSeconds},
    {"median_step_seconds", "median step", Unit::kMilliseconds},
    {"samples", "samples", Unit::kCount},
    {"samples_per_s", "speed", Unit::kSamplesPerSecond},
    {"devices", "devices", Unit::kText},
    {"transport", "transport", Unit::kText},
    {"bytes_pushed", "pushed", Unit::kBytes},
    {"bytes_pulled", "pulled", Unit::kBytes},
    {"bytes_between_servers", "between servers", Unit::kBytes},
    {"mean_staleness_seen", "mean staleness", Unit::kReal},
    {"max_staleness_seen", "largest staleness", Unit::kCount},
    {"workers_lost", "workers lost", Unit::kCount},
    {"workers_replaced", "workers replaced", Unit::kCount},
    {"parameters_xxh3", "parameters' XXH3", Unit::kText},
};

// The distinct texts of a list, in order of their first places.
std::string ListText(const json& list) {
  std::vector<std::string> texts;
  for (const json& item : list) {
    std::string text = item.is_string() ? item.get<std::string>() : item.dump();
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return absl::StrJoin(texts, ", ");
}

std::string ValueText(const json& value, Unit unit) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return ListText(value);
  if (!value.is_number()) return value.dump();
  const double number = value.get<double>();
  switch (unit) {
    case Unit::kPercent:
      return absl::StrFormat("%.2f %%", 100 * number);
    case Unit::kReal:
      return absl::StrFormat("%.4f", number);
    case Unit::kOfValues:
      return absl::StrFormat("%.3g of the values", number);
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

bool HasCodecs(const json& summary) { return summary.contains("push_codec"); }

// "12.3 MB (3.9x smaller, 48.0 MB as float32)".
std::string SentText(const json& summary, const std::string& bytes, const char* ratio) {
  return absl::StrCat(BytesText(NumberIn(summary, bytes.c_str())), " (",
                      RatioText(NumberIn(summary, ratio)), ", ",
                      BytesText(NumberIn(summary, (bytes + "_float32").c_str())), " as float32)");
}

// "push int8, pull bfloat16 (fc3.bias float32), tables from 16KiB on".
std::string CodecsText(const json& summary) {
  v1::CodecSpec codec;
  codec.set_push(TextIn(summary, "push_codec"));
  codec.set_pull(TextIn(summary, "pull_codec"));
  const json tables = summary.value("table_codec", json::object());
  for (const auto& [table, own] : tables.items()) {
    v1::TableCodec& added = *codec.add_table_codec();
    added.set_table(table);
    added.set_codec(own.is_string() ? own.get<std::string>() : own.dump());
  }
  codec.set_min_bytes(CountIn(summary, "codec_min_bytes"));
  codec.set_dgc(summary.contains("dgc_momentum"));
  return CodecText(codec);
}

SummaryRows RowsOf(const json& summary) {
  SummaryRows rows;
  for (const Row& row : kRows) {
    const absl::string_view key = row.key;
    if (!summary.contains(row.key)) continue;
    if (HasCodecs(summary) && key == "bytes_pushed") {
      const SummaryRows codecs = SummaryCodecRows(summary);
      rows.insert(rows.end(), codecs.begin(), codecs.end());
    } else if (!HasCodecs(summary) || key != "bytes_pulled") {
      rows.emplace_back(row.label, ValueText(summary[row.key], row.unit));
    }
  }
  return rows;
}

// ", 2 workers"; empty when the summary has no such field.
std::string Counted(const json& summary, const char* key) {
  if (!summary.contains(key)) return "";
  return absl::StrCat(", ", ValueText(summary[key], Unit::kCount), " ", key);
}

// True when the consistency changed during the job.
bool HasChanged(const json& summary) {
  return summary.value("consistency_periods", json()).size() > 1;
}

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

v1::TuningReport::Point PointOf(const json& object) {
  v1::TuningReport::Point point;
  if (!object.is_object()) return point;
  point.set_partition_bytes(CountIn(object, "partition_bytes"));
  point.set_credit_bytes(CountIn(object, "credit_bytes"));
  point.set_step_seconds(NumberIn(object, "step_seconds"));
  return point;
}

std::string PointText(const v1::TuningReport::Point& point) {
  std::string text = absl::StrCat("partition ", FormatSize(point.partition_bytes()), ", credit ",
                                  FormatSize(point.credit_bytes()));
  if (point.step_seconds() > 0) {
    absl::StrAppendFormat(&text, ", %.1f ms a step", 1000 * point.step_seconds());
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> FormatSummary(absl::string_view json_text) {
  const json summary = ParseJson(json_text);
  if (!summary.is_object()) {
    return absl::DataLossError(
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
  for (const auto& [label, value] : RowsOf(summary)) {
    absl::StrAppendFormat(&text, "  %-18s %s\n", label, value);
  }
  if (const std::string links = SummaryLinkText(summary); !links.empty()) {
    absl::StrAppendFormat(&text, "  %-18s %s\n", "links", links);
  }
  if (const std::string tuning = SummaryTuningText(summary); !tuning.empty()) {
    absl::StrAppendFormat(&text, "  %-18s %s\n", "tuned", tuning);
  }
  const json replacements = summary.value("place_replacements", json::array());
  for (const json& replacement : replacements) {
    if (replacement.is_object()) absl::StrAppend(&text, TextIn(replacement, "text"), "\n");
  }
  if (summary.contains("server_losses")) {
    absl::StrAppend(&text, TextIn(summary, "server_losses"), "\n");
  }
  if (summary.contains("warning")) {
    absl::StrAppend(&text, "warning: ", ValueText(summary["warning"], Unit::kText), "\n");
  }
  return text;
}

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

SummaryRows SummaryCodecRows(const json& summary) {
  if (!HasCodecs(summary)) return {};
  SummaryRows rows = {{"pushed", SentText(summary, "bytes_pushed", "push_ratio")},
                      {"pulled", SentText(summary, "bytes_pulled", "pull_ratio")},
                      {"codecs", CodecsText(summary)}};
  const json choice = summary.value("auto_codecs", json());
  if (choice.is_object()) {
    rows.emplace_back("auto codecs", TextIn(choice, "text"));
  } else if (NumberIn(summary, "push_ratio") == 1 && NumberIn(summary, "pull_ratio") == 1) {
    rows.back().second +=
        "; no table got smaller: lower --field=codec.min_bytes, or the R of a topk";
  }
  const json residual = summary.value("residual_ratio", json());
  if (residual.is_number()) {
    rows.emplace_back("residual", absl::StrFormat("%.3g of the gradient", residual.get<double>()));
  }
  rows.emplace_back("time in codecs", absl::StrFormat("%.2f s, all workers together",
                                                      NumberIn(summary, "codec_seconds")));
  rows.emplace_back("residuals lost", CountText(CountIn(summary, "residuals_lost")));
  return rows;
}

std::string SummaryLinkText(const json& summary) {
  const json links = summary.value("links", json());
  return links.is_object() ? TextIn(links, "text") : "";
}

std::string TuningText(const v1::TuningReport& tuning) {
  if (tuning.has_chosen()) return absl::StrCat(PointText(tuning.chosen()), ": ", tuning.reason());
  if (tuning.tried().empty()) return "nothing measured yet";
  return absl::StrCat("not finished: ", tuning.tried_size(), " measurements, the last one ",
                      PointText(*tuning.tried().rbegin()));
}

std::string SummaryTuningText(const json& summary) {
  const json tuning = summary.value("tuning", json());
  if (!tuning.is_object()) return "";
  v1::TuningReport report;
  if (tuning.contains("chosen")) {
    *report.mutable_chosen() = PointOf(tuning["chosen"]);
    report.set_reason(TextIn(tuning, "reason"));
  }
  for (const json& point : tuning.value("tried", json::array()))
    *report.add_tried() = PointOf(point);
  return TuningText(report);
}

}  // namespace capstan
