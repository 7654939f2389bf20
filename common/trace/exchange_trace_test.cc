#include "common/trace/exchange_trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/base/real_clock.h"
#include "common/trace/traced_text.h"
#include "common/trace/tracer.h"

namespace capstan {
namespace {

using Json = nlohmann::json;

std::string Path() {
  return testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
}

std::unique_ptr<Tracer> NewTracer(Clock* clock) {
  Tracer::Options options;
  options.path = Path();
  options.clock = clock;
  return Tracer::Create(options).value();
}

std::string Finish(Tracer& tracer) {
  EXPECT_TRUE(tracer.Finish().ok());
  return TracedText(Path());
}

TEST(ExchangeTraceTest, PhasesFollowOneAnother) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  const ExchangeTrace trace(tracer.get(), "fc1.weight", {{"slice", 2}}, "queue");
  clock.Advance(absl::Microseconds(5));
  trace.Begin("send");
  clock.Advance(absl::Microseconds(7));
  bool has_run = false;
  auto sent = trace.BeginBefore("reply", [&has_run] { has_run = true; });
  clock.Advance(absl::Microseconds(1));
  sent();
  EXPECT_TRUE(has_run);
  clock.Advance(absl::Microseconds(20));
  const ExchangeTrace same = trace;
  same.End();
  clock.Advance(absl::Microseconds(20));
  trace.Begin("too late");
  trace.End();
  EXPECT_EQ(Finish(*tracer),
            "b fc1.weight 0.0 {\"slice\":2}\n"
            "b queue 0.0\ne queue 5.0\n"
            "b send 5.0\ne send 13.0\n"
            "b reply 13.0\ne reply 33.0\n"
            "e fc1.weight 33.0\n");
}

TEST(ExchangeTraceTest, ANumberThatIsKnownLaterIsAddedToTheOthers) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  const ExchangeTrace trace(tracer.get(), "fc1.weight", {{"bytes", 2}}, "queue");
  clock.Advance(absl::Microseconds(5));
  trace.AddArg("bytes_pulled", 1);
  trace.End();
  trace.AddArg("too_late", 7);
  EXPECT_EQ(Finish(*tracer),
            "b fc1.weight 0.0 {\"bytes\":2,\"bytes_pulled\":1}\n"
            "b queue 0.0\ne queue 5.0\n"
            "e fc1.weight 5.0\n");
}

TEST(ExchangeTraceTest, APhaseComesOnlyAfterTheOneThatItFollows) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  const ExchangeTrace trace(tracer.get(), "fc1.weight", {}, "apply");
  clock.Advance(absl::Microseconds(5));
  trace.BeginAfter("apply", "parked");
  clock.Advance(absl::Microseconds(6));
  trace.BeginAfter("apply", "parked again");
  clock.Advance(absl::Microseconds(7));
  bool has_run = false;
  trace.EndBefore([&has_run] { has_run = true; })();
  EXPECT_TRUE(has_run);
  trace.BeginAfter("parked", "too late");
  EXPECT_EQ(Finish(*tracer),
            "b fc1.weight 0.0\n"
            "b apply 0.0\ne apply 5.0\n"
            "b parked 5.0\ne parked 18.0\n"
            "e fc1.weight 18.0\n");
}

TEST(ExchangeTraceTest, APhaseThatHasBegunBeforeOthersTakesTheirPlace) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  const ExchangeTrace trace(tracer.get(), "fc1.weight", {}, "apply");
  clock.Advance(absl::Microseconds(5));
  const absl::Time begin = clock.Now();
  clock.Advance(absl::Microseconds(2));
  trace.BeginAfter("apply", "parked");
  clock.Advance(absl::Microseconds(3));
  trace.BeginAt(begin, "replicate");
  clock.Advance(absl::Microseconds(10));
  trace.End();
  trace.BeginAt(begin, "too late");
  EXPECT_EQ(Finish(*tracer),
            "b fc1.weight 0.0\n"
            "b apply 0.0\ne apply 5.0\n"
            "b replicate 5.0\ne replicate 20.0\n"
            "e fc1.weight 20.0\n");
}

TEST(ExchangeTraceTest, WithoutATracerItOnlyHandsOnItsCallbacks) {
  const ExchangeTrace trace(/*tracer=*/nullptr, "w", {}, "queue");
  bool has_run = false;
  trace.BeginBefore("reply", [&has_run] { has_run = true; })();
  EXPECT_TRUE(has_run);
  trace.BeginAfter("reply", "parked");
  trace.BeginAt(absl::UnixEpoch(), "replicate");
  trace.AddArg("bytes_pulled", 1);
  bool has_run_again = false;
  trace.EndBefore([&has_run_again] { has_run_again = true; })();
  EXPECT_TRUE(has_run_again);
  trace.End();
}

TEST(ExchangeTraceTest, WhatHasNotEndedIsNotWritten) {
  FakeClock clock;
  const auto tracer = NewTracer(&clock);
  { const ExchangeTrace trace(tracer.get(), "w", {}, "queue"); }
  EXPECT_EQ(Finish(*tracer), "");
}

TEST(ExchangeTraceTest, APhaseAndTheEndMayMeet) {
  RealClock clock;
  const auto tracer = NewTracer(&clock);
  for (int i = 0; i < 500; ++i) {
    const ExchangeTrace trace(tracer.get(), "w", {}, "apply");
    std::thread other([trace] { trace.Begin("parked"); });
    trace.End();
    other.join();
  }
  ASSERT_TRUE(tracer->Finish().ok());
  // In any order of the threads, the parts are whole and time does not go back.
  std::ifstream file(Path());
  int open = 0, ended = 0;
  double before = 0;
  for (const Json& event : Json::parse(file)) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), before);
    before = event["ts"];
    open += event["ph"] == "b" ? 1 : -1;
    EXPECT_GE(open, 0);
    ended += open == 0;
  }
  EXPECT_EQ(ended, 500);
}

}  // namespace
}  // namespace capstan
