#include "common/trace/tracer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

using Json = nlohmann::json;

std::string Path() {
  return testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() +
         ".trace.json";
}

std::string Contents() {
  std::stringstream text;
  text << std::ifstream(Path()).rdbuf();
  return text.str();
}

std::unique_ptr<Tracer> NewTracer(Clock* clock, int64_t max_events = 1000) {
  Tracer::Options options;
  options.path = Path();
  options.clock_offset = {absl::Milliseconds(3), absl::Microseconds(20)};
  options.clock = clock;
  options.max_events = max_events;
  return Tracer::Create(options).value();
}

// The events without metadata.
std::vector<Json> Events(const Json& trace) {
  std::vector<Json> events;
  for (const Json& event : trace) {
    if (event["ph"] != "M") events.push_back(event);
  }
  return events;
}

TEST(TracerTest, AFinishedTraceIsOneJsonArray) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  const int64_t begin_ns = absl::ToUnixNanos(clock.Now());
  tracer->NameProcess("worker 1", /*rank=*/101);
  const int track = tracer->Track("training");
  EXPECT_EQ(tracer->Track("training"), track);
  EXPECT_NE(tracer->Track("copies"), track);
  {
    const TraceSpan step(tracer.get(), track, "step 4", {{"step", 4}});
    clock.Advance(absl::Milliseconds(2));
    const TraceSpan nothing(/*tracer=*/nullptr, track, "not traced", {});
  }
  ASSERT_TRUE(tracer->Finish().ok());
  const Json trace = Json::parse(Contents());
  EXPECT_EQ(trace[0]["name"], "capstan_clock");
  EXPECT_EQ(trace[0]["args"]["begin_unix_ns"], begin_ns);
  EXPECT_EQ(trace[0]["args"]["offset_ns"], 3'000'000);
  EXPECT_EQ(trace[1]["args"]["name"], "exchanges");
  EXPECT_NE(trace[1]["tid"], track);
  EXPECT_EQ(trace[2]["args"]["name"], "worker 1");
  EXPECT_EQ(trace[3]["args"]["sort_index"], 101);
  EXPECT_EQ(trace[4]["args"]["name"], "training");
  ASSERT_EQ(Events(trace).size(), 1u);
  EXPECT_EQ(Events(trace)[0]["name"], "step 4");
  EXPECT_EQ(Events(trace)[0]["tid"], track);
  EXPECT_EQ(Events(trace)[0]["ts"], 0.0);
  EXPECT_EQ(Events(trace)[0]["dur"], 2000.0);
  EXPECT_EQ(trace.back()["name"], "capstan_end");
}

TEST(TracerTest, AnExchangeContainsItsPhases) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  const absl::Time now = clock.Now();
  tracer->AddExchange("w", {{"queue", now}, {"send", now + absl::Microseconds(10)}},
                      now + absl::Microseconds(25), {{"slice", 6}});
  ASSERT_TRUE(tracer->Finish().ok());
  std::string text;
  for (const Json& event : Events(Json::parse(Contents()))) {
    EXPECT_EQ(event["id2"]["local"], "0x1");
    text += event["ph"].get<std::string>() + " " + event["name"].get<std::string>() + " " +
            event["ts"].dump() + "\n";
  }
  EXPECT_EQ(text,
            "b w 0.0\n"
            "b queue 0.0\n"
            "e queue 10.0\n"
            "b send 10.0\n"
            "e send 25.0\n"
            "e w 25.0\n");
}

TEST(TracerTest, WhatHasNoRoomIsCounted) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock, /*max_events=*/5);
  for (int i = 0; i < 2; ++i) {
    tracer->AddExchange("w", {{"queue", clock.Now()}}, clock.Now(), {});  // four events, or none
  }
  tracer->AddSpan(1, "small enough", clock.Now(), clock.Now(), {});
  tracer->Track("names have room");
  ASSERT_TRUE(tracer->Finish().ok());
  const Json trace = Json::parse(Contents());
  EXPECT_EQ(Events(trace).size(), 5u);
  EXPECT_EQ(trace.back()["args"]["left_out"], 4);
}

TEST(TracerTest, AKilledProcessLeavesWholeEvents) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  tracer->AddSpan(1, "early", clock.Now(), clock.Now(), {});
  clock.Advance(absl::Seconds(1));
  tracer->AddSpan(1, "a second later", clock.Now(), clock.Now(), {});
  // The file has no end yet. Viewers close it like this.
  std::string text = Contents();
  ASSERT_EQ(text.substr(text.size() - 2), ",\n");
  const Json trace = Json::parse(text.substr(0, text.size() - 2) + "]");
  ASSERT_EQ(Events(trace).size(), 2u);
  EXPECT_EQ(Events(trace)[1]["name"], "a second later");
}

TEST(TracerTest, ThreadsDoNotDisturbOneAnother) {
  RealClock clock;
  const auto tracer = NewTracer(&clock, /*max_events=*/100'000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&tracer, i] {
      const int track = tracer->Track("thread " + std::to_string(i));
      for (int64_t step = 0; step < 2000; ++step) {
        const TraceSpan span(tracer.get(), track, "step", {{"step", step}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(tracer->Finish().ok());
  EXPECT_EQ(Events(Json::parse(Contents())).size(), 8000u);
}

TEST(TracerTest, AFileThatCannotBeWrittenIsNamed) {
  FakeClock clock;
  Tracer::Options options;
  options.path = "/nonexistent/x.trace.json";
  options.clock = &clock;
  const auto tracer = Tracer::Create(options);
  EXPECT_TRUE(absl::IsUnavailable(tracer.status()));
  EXPECT_NE(tracer.status().message().find("/nonexistent/x.trace.json"), std::string::npos);
  // A device without room.
  options.path = "/dev/full";
  EXPECT_TRUE(absl::IsUnavailable(Tracer::Create(options).value()->Finish()));
}

}  // namespace
}  // namespace capstan
