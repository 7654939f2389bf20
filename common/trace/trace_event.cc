#include "common/trace/trace_event.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan {
namespace {

// In quotes. Invalid UTF-8 is replaced.
std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/false,
            nlohmann::json::error_handler_t::replace);
}

// Microseconds, to the nanosecond.
std::string Microseconds(absl::Duration time) {
  return absl::StrFormat("%.3f", absl::ToDoubleMicroseconds(time));
}

std::string ArgsText(const TraceArgs& args) {
  std::string text;
  for (const auto& [name, value] : args) {
    absl::StrAppend(&text, text.empty() ? "" : ",", "\"", name, "\":", value);
  }
  return text;
}

std::string MetadataEvent(absl::string_view name, int track, absl::string_view args) {
  return absl::StrCat(R"({"name":")", name, R"(","ph":"M","pid":1,"tid":)", track, R"(,"args":{)",
                      args, "}}");
}

// The event up to its arguments. The id is local to the process, also in merged files.
std::string AsyncText(char phase, uint64_t id, absl::string_view name, absl::Duration time) {
  return absl::StrCat(R"({"name":)", Quoted(name), R"(,"cat":"exchange","ph":")",
                      absl::string_view(&phase, 1), R"(","pid":1,"tid":)", kExchangesTrack,
                      R"(,"id2":{"local":"0x)", absl::Hex(id), R"("},"ts":)", Microseconds(time));
}

}  // namespace

std::string ClockEvent(absl::Time begin, const ClockOffset& offset) {
  return MetadataEvent(
      kClockEvent, kExchangesTrack,
      absl::StrCat(R"("begin_unix_ns":)", absl::ToUnixNanos(begin), R"(,"offset_ns":)",
                   absl::ToInt64Nanoseconds(offset.offset), R"(,"uncertainty_ns":)",
                   absl::ToInt64Nanoseconds(offset.uncertainty)));
}

std::string EndEvent(int64_t left_out) {
  return MetadataEvent(kEndEvent, kExchangesTrack, absl::StrCat(R"("left_out":)", left_out));
}

std::string ProcessNameEvent(absl::string_view name) {
  return MetadataEvent("process_name", kExchangesTrack, absl::StrCat(R"("name":)", Quoted(name)));
}

std::string ProcessRankEvent(int rank) {
  return MetadataEvent("process_sort_index", kExchangesTrack,
                       absl::StrCat(R"("sort_index":)", rank));
}

std::string TrackNameEvent(int track, absl::string_view name) {
  return MetadataEvent("thread_name", track, absl::StrCat(R"("name":)", Quoted(name)));
}

std::string SpanEvent(int track, absl::string_view name, absl::Duration begin, absl::Duration end,
                      const TraceArgs& args) {
  return absl::StrCat(R"({"name":)", Quoted(name), R"(,"ph":"X","pid":1,"tid":)", track,
                      R"(,"ts":)", Microseconds(begin), R"(,"dur":)", Microseconds(end - begin),
                      R"(,"args":{)", ArgsText(args), "}}");
}

std::string AsyncBeginEvent(uint64_t id, absl::string_view name, absl::Duration time,
                            const TraceArgs& args) {
  return absl::StrCat(AsyncText('b', id, name, time), R"(,"args":{)", ArgsText(args), "}}");
}

std::string AsyncEndEvent(uint64_t id, absl::string_view name, absl::Duration time) {
  return absl::StrCat(AsyncText('e', id, name, time), "}");
}

}  // namespace capstan
