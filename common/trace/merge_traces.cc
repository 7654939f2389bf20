#include "common/trace/merge_traces.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/trace/trace_event.h"
#include "common/trace/trace_reader.h"

namespace capstan {
namespace {

using Json = nlohmann::json;

// Writes events into one file.
class EventWriter {
 public:
  explicit EventWriter(const std::string& path) : file_(path, std::ios::trunc) { file_ << "[\n"; }

  void Write(const Json& event) {
    file_ << (is_first_ ? "" : ",\n")
          << event.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/false,
                        Json::error_handler_t::replace);
    is_first_ = false;
  }

  // False when an event could not be written.
  bool Finish() {
    file_ << "\n]\n";
    file_.close();
    return !file_.fail();
  }

 private:
  std::ofstream file_;
  bool is_first_ = true;
};

// The label that viewers show beside a process's name.
Json ClockLabel(int process, absl::Duration uncertainty) {
  return {{"name", "process_labels"},
          {"ph", "M"},
          {"pid", process},
          {"args", {{"labels", absl::StrCat("clock +-", absl::FormatDuration(uncertainty))}}}};
}

Json ProcessName(int process, const std::string& name) {
  return {{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}};
}

// Adds the event to the facts about its process.
void Note(const Json& event, MergedProcess& process) {
  if (event["ph"] != "M") {
    ++process.events;
    return;
  }
  const Json& args = event["args"];
  if (event["name"] == "process_name") process.name = args["name"].get<std::string>();
  if (event["name"] == kEndEvent) {
    process.has_end = true;
    process.left_out = args["left_out"].get<int64_t>();
  }
}

// Writes the events of one trace, `shift` later, with the number `process`. Extends `duration` to
// the last event.
absl::StatusOr<MergedProcess> CopyEvents(TraceReader& reader, int process, absl::Duration shift,
                                         EventWriter& writer, absl::Duration& duration) {
  const double shift_us = absl::ToDoubleMicroseconds(shift);
  MergedProcess merged;
  merged.clock_uncertainty = reader.clock_offset().uncertainty;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Json> event, reader.Next());
    if (!event.has_value()) return merged;
    Note(*event, merged);
    (*event)["pid"] = process;
    if (event->contains("ts")) {
      const double time_us = (*event)["ts"].get<double>() + shift_us;
      (*event)["ts"] = std::round(time_us * 1000) / 1000;
      duration = std::max(duration, absl::Microseconds(time_us + event->value("dur", 0.0)));
    }
    writer.Write(*event);
  }
}

// Writes the events of all `readers`. They read the files at `paths`. The first trace began at
// `begin`.
absl::StatusOr<MergedTrace> CopyAll(const std::vector<std::string>& paths,
                                    std::vector<TraceReader>& readers, absl::Time begin,
                                    EventWriter& writer) {
  MergedTrace merged;
  for (size_t i = 0; i < readers.size(); ++i) {
    TraceReader& reader = readers[i];
    const int process = static_cast<int>(i) + 1;
    const absl::Duration shift = reader.begin() + reader.clock_offset().offset - begin;
    writer.Write(ClockLabel(process, reader.clock_offset().uncertainty));
    ASSIGN_OR_RETURN(MergedProcess copied,
                     CopyEvents(reader, process, shift, writer, merged.duration));
    if (copied.name.empty()) {  // killed at its start
      copied.name = std::filesystem::path(paths[i]).filename().string();
      writer.Write(ProcessName(process, copied.name));
    }
    merged.events += copied.events;
    merged.processes.push_back(std::move(copied));
  }
  return merged;
}

}  // namespace

absl::StatusOr<MergedTrace> MergeTraces(const std::vector<std::string>& paths,
                                        const std::string& output) {
  std::vector<TraceReader> readers;
  absl::Time begin = absl::InfiniteFuture();
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
    begin = std::min(begin, reader.begin() + reader.clock_offset().offset);
    readers.push_back(std::move(reader));
  }
  EventWriter writer(output);
  absl::StatusOr<MergedTrace> merged = CopyAll(paths, readers, begin, writer);
  const bool is_written = writer.Finish();
  std::error_code ignored;
  // A part of a trace would look like the whole.
  if (!merged.ok() && is_written && std::filesystem::is_regular_file(output, ignored)) {
    std::filesystem::remove(output, ignored);
  }
  if (!merged.ok() || is_written) return merged;
  return absl::UnavailableError(absl::StrCat("expected to write the trace to ", output,
                                             ", but cannot; choose another --output"));
}

}  // namespace capstan
