#include "common/trace/trace_event.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace capstan {
namespace {

using Json = nlohmann::json;

TEST(TraceEventTest, ASpanHasItsTimesInMicroseconds) {
  EXPECT_EQ(SpanEvent(/*track=*/2, "forward fc1", absl::Nanoseconds(1'234'567),
                      absl::Nanoseconds(2'000'001), {{"layer", 3}, {"step", -1}}),
            R"({"name":"forward fc1","ph":"X","pid":1,"tid":2,"ts":1234.567,"dur":765.434,)"
            R"("args":{"layer":3,"step":-1}})");
}

TEST(TraceEventTest, TheTwoEndsOfAnExchangeHaveAnIdOfTheirProcess) {
  EXPECT_EQ(AsyncBeginEvent(/*id=*/31, "fc1.weight", absl::Microseconds(5), {{"slice", 0}}),
            R"({"name":"fc1.weight","cat":"exchange","ph":"b","pid":1,"tid":1,)"
            R"("id2":{"local":"0x1f"},"ts":5.000,"args":{"slice":0}})");
  EXPECT_EQ(AsyncEndEvent(/*id=*/31, "fc1.weight", absl::Microseconds(7)),
            R"({"name":"fc1.weight","cat":"exchange","ph":"e","pid":1,"tid":1,)"
            R"("id2":{"local":"0x1f"},"ts":7.000})");
}

TEST(TraceEventTest, NamesOfProcessesAndTracksAreMetadata) {
  EXPECT_EQ(ProcessNameEvent("worker 3"),
            R"({"name":"process_name","ph":"M","pid":1,"tid":1,"args":{"name":"worker 3"}})");
  EXPECT_EQ(TrackNameEvent(2, "training"),
            R"({"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"training"}})");
  EXPECT_EQ(Json::parse(ProcessRankEvent(7))["args"]["sort_index"], 7);
  EXPECT_EQ(Json::parse(EndEvent(12))["args"]["left_out"], 12);
}

TEST(TraceEventTest, ClocksAreKeptToTheNanosecond) {
  const Json clock = Json::parse(ClockEvent(absl::FromUnixNanos(1'795'276'443'123'456'789),
                                            {-absl::Microseconds(40), absl::Nanoseconds(900)}));
  EXPECT_EQ(clock["args"]["begin_unix_ns"].get<int64_t>(), 1'795'276'443'123'456'789);
  EXPECT_EQ(clock["args"]["offset_ns"], -40'000);
  EXPECT_EQ(clock["args"]["uncertainty_ns"], 900);
}

TEST(TraceEventTest, AnyNameBecomesValidJson) {
  for (const std::string name : {"a \"quoted\" \\ name", "line\nbreak\ttab", "caf\xc3\xa9"}) {
    EXPECT_EQ(Json::parse(SpanEvent(1, name, {}, {}, {}))["name"], name);
  }
  // Invalid UTF-8 is replaced.
  EXPECT_EQ(Json::parse(AsyncEndEvent(1, "\xff!", {}))["name"], "\xef\xbf\xbd!");
}

}  // namespace
}  // namespace capstan
