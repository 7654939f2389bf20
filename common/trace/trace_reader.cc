#include "common/trace/trace_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/input_file.h"
#include "common/base/json_fields.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

using Json = nlohmann::json;

// An error shows this much of a line.
constexpr size_t kShownBytes = 60;

bool HasNumber(const Json& object, const char* name) {
  const auto entry = object.find(name);
  return entry != object.end() && entry->is_number();
}

bool HasInteger(const Json& object, const char* name) {
  const auto entry = object.find(name);
  return entry != object.end() && entry->is_number_integer();
}

bool HasText(const Json& object, const char* name) {
  const auto entry = object.find(name);
  return entry != object.end() && entry->is_string();
}

// Checks every field that a merge reads. Metadata has no time.
bool IsEvent(const Json& event) {
  if (!event.is_object() || !HasText(event, "ph") || !HasText(event, "name")) return false;
  for (const char* const time : {"ts", "dur"}) {
    if (event.contains(time) && !HasNumber(event, time)) return false;
  }
  if (event["ph"] != "M") return event.contains("ts");
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return false;
  if (event["name"] == "process_name") return HasText(*args, "name");
  return event["name"] != kEndEvent || HasInteger(*args, "left_out");
}

}  // namespace

absl::StatusOr<TraceReader> TraceReader::Open(const std::string& path) {
  RETURN_IF_ERROR(Annotate(CheckIsFile(path), absl::StrCat("trace file ", path)));
  TraceReader reader(path);
  if (!reader.file_) {
    return absl::NotFoundError(
        absl::StrCat("trace file ", path, ": the file is missing or cannot be read"));
  }
  RETURN_IF_ERROR(reader.ReadClock());
  return reader;
}

absl::Status TraceReader::ReadClock() {
  ASSIGN_OR_RETURN(first_, Next());
  if (!first_.has_value()) return Damaged("the end of the file");
  const auto args = first_->find("args");
  if ((*first_)["name"] != kClockEvent || args == first_->end() ||
      !HasInteger(*args, "begin_unix_ns") || !HasInteger(*args, "offset_ns") ||
      !HasInteger(*args, "uncertainty_ns")) {
    return Damaged(first_->dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  begin_ = absl::FromUnixNanos((*args)["begin_unix_ns"].get<int64_t>());
  clock_offset_.offset = absl::Nanoseconds((*args)["offset_ns"].get<int64_t>());
  clock_offset_.uncertainty = absl::Nanoseconds((*args)["uncertainty_ns"].get<int64_t>());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Json>> TraceReader::Next() {
  if (first_.has_value()) return std::exchange(first_, std::nullopt);
  std::string text;
  while (std::getline(file_, text)) {
    ++line_;
    if (text == "[" || text == "]" || text.empty()) continue;
    Json event = ParseJson(absl::StripSuffix(text, ","));
    if (IsEvent(event)) return event;
    // A line without its newline was cut off by a kill.
    if (!file_.eof()) return Damaged(text);
  }
  return std::nullopt;
}

absl::Status TraceReader::Damaged(const std::string& got) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "trace file ", path_, line_ == 0 ? "" : absl::StrCat(", line ", line_), ": expected ",
      begin_ == absl::Time() ? absl::StrCat("the event ", kClockEvent, " of a Capstan process")
                             : "a trace event",
      ", got ", got.substr(0, kShownBytes), got.size() > kShownBytes ? "..." : "",
      "; the file is cut, damaged or no trace of Capstan: move it away"));
}

}  // namespace capstan
