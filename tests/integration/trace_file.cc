#include "tests/integration/trace_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace capstan {
namespace {

using Json = nlohmann::json;

// Times are written to the nanosecond.
constexpr double kRoundingUs = 0.002;

using Names = std::map<std::pair<int, int>, std::string>;

// The value of this metadata for each process and track.
Names NamesOf(const Json& events, const std::string& metadata) {
  Names names;
  for (const Json& event : events) {
    if (event.at("ph") != "M" || event.at("name") != metadata) continue;
    const int track = metadata == "thread_name" ? event.at("tid").get<int>() : 0;
    names[{event.at("pid").get<int>(), track}] = event.at("args").at("name").get<std::string>();
  }
  return names;
}

TracedSpan BeginSpan(const Json& event, const Names& processes) {
  TracedSpan span;
  span.process = processes.at({event.at("pid").get<int>(), 0});
  span.name = event.at("name").get<std::string>();
  span.begin = event.at("ts").get<double>();
  const Json args = event.value("args", Json::object());
  for (const auto& [name, value] : args.items()) span.args[name] = value.get<double>();
  return span;
}

// Joins the begins and ends of exchanges and of their phases.
class ExchangeReader {
 public:
  void Add(const Json& event, const Names& processes, TraceFile& trace) {
    const std::pair<int, std::string> id = {event.at("pid").get<int>(),
                                            event.at("id2").at("local").get<std::string>()};
    std::vector<TracedSpan>& open = open_[id];
    if (event.at("ph") == "b") {
      open.push_back(BeginSpan(event, processes));
      return;
    }
    ASSERT_FALSE(open.empty()) << event;
    TracedSpan span = std::move(open.back());
    open.pop_back();
    EXPECT_EQ(span.name, event.at("name").get<std::string>());
    span.end = event.at("ts").get<double>();
    EXPECT_LE(span.begin, span.end);
    if (!open.empty()) return phases_[id].push_back(std::move(span));
    TracedExchange exchange;
    static_cast<TracedSpan&>(exchange) = std::move(span);
    exchange.phases = std::exchange(phases_[id], {});
    trace.exchanges.push_back(std::move(exchange));
  }

  ~ExchangeReader() {
    for (const auto& [id, open] : open_) EXPECT_TRUE(open.empty()) << id.second << " has no end";
  }

 private:
  std::map<std::pair<int, std::string>, std::vector<TracedSpan>> open_;
  std::map<std::pair<int, std::string>, std::vector<TracedSpan>> phases_;
};

}  // namespace

TraceFile ReadTrace(const std::string& path) {
  TraceFile trace;
  std::ifstream file(path);
  const Json events = Json::parse(file, /*cb=*/nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(events.is_array()) << path;
  if (!events.is_array()) return trace;
  const Names processes = NamesOf(events, "process_name"), tracks = NamesOf(events, "thread_name");
  ExchangeReader exchanges;
  for (const Json& event : events) {
    const std::string phase = event.at("ph").get<std::string>();
    const int process = event.at("pid").get<int>();
    if (phase == "X") {
      TracedSpan span = BeginSpan(event, processes);
      span.end = span.begin + event.at("dur").get<double>();
      trace.tracks[span.process + ", " + tracks.at({process, event.at("tid").get<int>()})]
          .push_back(std::move(span));
    } else if (phase == "b" || phase == "e") {
      exchanges.Add(event, processes, trace);
    } else if (event.at("name") == "capstan_clock") {
      trace.clock_uncertainty[processes.at({process, 0})] =
          event.at("args").at("uncertainty_ns").get<double>() * 1e-3;
    } else {
      EXPECT_EQ(phase, "M") << event;
    }
  }
  return trace;
}

void ExpectNested(const std::vector<TracedSpan>& spans, const std::string& track) {
  std::vector<TracedSpan> sorted = spans;
  std::sort(sorted.begin(), sorted.end(), [](const TracedSpan& a, const TracedSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<const TracedSpan*> open;
  for (const TracedSpan& span : sorted) {
    while (!open.empty() && open.back()->end <= span.begin + kRoundingUs) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(span.end, open.back()->end + kRoundingUs)
          << track << ": " << span.name << " from " << span.begin << " to " << span.end
          << " begins in " << open.back()->name << ", which ends at " << open.back()->end;
    }
    open.push_back(&span);
  }
}

}  // namespace capstan
