#include "deploy/cli/tuning_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/json_fields.h"
#include "common/job/field_text.h"

namespace capstan {
namespace {

using ::nlohmann::json;

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

std::string TuningText(const v1::TuningReport& tuning) {
  if (tuning.has_chosen()) return absl::StrCat(PointText(tuning.chosen()), ": ", tuning.reason());
  if (tuning.tried().empty()) return "nothing measured yet";
  return absl::StrCat("not at its end: ", tuning.tried_size(), " measurements, the last one ",
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
