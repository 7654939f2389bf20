#include "common/trace/merge_traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"
#include "common/trace/trace_event.h"
#include "common/trace/tracer.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class MergeTracesTest : public testing::Test {
 protected:
  MergeTracesTest()
      : folder_(testing::TempDir() +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::unique_ptr<Tracer> NewTracer(const std::string& name, Clock* clock, ClockOffset offset) {
    Tracer::Options options;
    options.path = Path(name);
    options.clock_offset = offset;
    options.clock = clock;
    return Tracer::Create(options).value();
  }

  // A span of 10 us that begins 5 ms after the trace.
  void Trace(const std::string& name, Clock* clock, ClockOffset offset) {
    const auto tracer = NewTracer(name, clock, offset);
    tracer->NameProcess(name, /*rank=*/0);
    const absl::Time begin = clock->Now() + absl::Milliseconds(5);
    tracer->AddSpan(tracer->Track("training"), "step", begin, begin + absl::Microseconds(10), {});
    ASSERT_TRUE(tracer->Finish().ok());
  }

  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }

  const std::string folder_;
};

TEST_F(MergeTracesTest, TimesAreThoseOfTheCoordinatorsClock) {
  // Both spans run at the same time, but the clocks differ by 7 s. The second trace began 2 ms
  // later.
  FakeClock one, other;
  other.Advance(absl::Seconds(7) + absl::Milliseconds(2));
  Trace("one", &one, {absl::Seconds(3), absl::Microseconds(10)});
  Trace("other", &other, {-absl::Seconds(4), absl::Microseconds(30)});
  const auto merged = MergeTraces({Path("one"), Path("other")}, Path("all"));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->events, 2);
  EXPECT_EQ(merged->duration, absl::Milliseconds(7) + absl::Microseconds(10));
  ASSERT_EQ(merged->processes.size(), 2u);
  EXPECT_EQ(merged->processes[1].name, "other");
  EXPECT_EQ(merged->processes[1].clock_uncertainty, absl::Microseconds(30));
  EXPECT_TRUE(merged->processes[1].has_end);

  std::map<int, double> begin_of_process;
  std::map<int, std::string> name_of_process;
  for (const Json& event : Json::parse(Read("all"))) {
    if (event["ph"] == "X") begin_of_process[event["pid"]] = event["ts"];
    if (event["name"] == "process_name") name_of_process[event["pid"]] = event["args"]["name"];
  }
  EXPECT_EQ(begin_of_process, (std::map<int, double>{{1, 5000}, {2, 7000}}));
  EXPECT_EQ(name_of_process, (std::map<int, std::string>{{1, "one"}, {2, "other"}}));
}

TEST_F(MergeTracesTest, AnExchangeKeepsAnIdOfItsOwnProcess) {
  FakeClock clock;
  for (const char* name : {"one", "other"}) {
    const auto tracer = NewTracer(name, &clock, {});
    tracer->AddExchange("w", {{"queue", clock.Now()}}, clock.Now(), {});
    ASSERT_TRUE(tracer->Finish().ok());
  }
  ASSERT_TRUE(MergeTraces({Path("one"), Path("other")}, Path("all")).ok());
  std::map<int, int> exchanges_of_process;
  for (const Json& event : Json::parse(Read("all"))) {
    if (event["ph"] == "b" && event["name"] == "w" && event["id2"]["local"] == "0x1") {
      ++exchanges_of_process[event["pid"]];
    }
  }
  EXPECT_EQ(exchanges_of_process, (std::map<int, int>{{1, 1}, {2, 1}}));
}

TEST_F(MergeTracesTest, OfAKilledProcessWhatIsWholeIsTaken) {
  FakeClock clock;
  Trace("whole", &clock, {});
  const std::string text = Read("whole");
  const size_t span = text.find(R"({"name":"step")");
  // The file is cut between two events, and within one.
  for (const size_t size : {text.find('\n', span) + 1, text.find('\n', span) + 9}) {
    Write("killed", text.substr(0, size));
    const auto merged = MergeTraces({Path("killed")}, Path("all"));
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->events, 1);
    EXPECT_FALSE(merged->processes[0].has_end);
  }
  Write("killed", text.substr(0, span + 9));
  EXPECT_EQ(MergeTraces({Path("killed")}, Path("all"))->events, 0);
}

TEST_F(MergeTracesTest, AProcessThatWasKilledAtItsStartIsNamedAfterItsFile) {
  FakeClock clock;
  Trace("whole", &clock, {});
  const std::string text = Read("whole");
  Write("killed", text.substr(0, text.find('\n', text.find("capstan_clock")) + 1));
  EXPECT_EQ(MergeTraces({Path("killed")}, Path("all"))->events, 0);
  std::vector<std::string> names;
  for (const Json& event : Json::parse(Read("all"))) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(names, std::vector<std::string>{"killed"});
}

TEST_F(MergeTracesTest, WhatWasLeftOutIsTold) {
  FakeClock clock;
  Tracer::Options options;
  options.path = Path("full");
  options.clock = &clock;
  options.max_events = 1;
  const auto tracer = Tracer::Create(options).value();
  for (int i = 0; i < 3; ++i) tracer->AddSpan(1, "step", clock.Now(), clock.Now(), {});
  ASSERT_TRUE(tracer->Finish().ok());
  const MergedTrace merged = MergeTraces({Path("full")}, Path("all")).value();
  EXPECT_EQ(merged.processes[0].left_out, 2);
  EXPECT_EQ(merged.processes[0].name, "full") << "that of its file";
}

TEST_F(MergeTracesTest, DamageIsNamedWithItsLine) {
  FakeClock clock;
  Trace("good", &clock, {});
  const std::string good = Read("good");
  const size_t second = good.find('\n', good.find('\n') + 1) + 1;
  for (const std::string& damage : std::vector<std::string>{
           "not an event\n", "17,\n", "{\"ph\":\"X\",\"name\":\"no ts\"},\n",
           "{\"ph\":\"M\",\"name\":\"no args\"},\n", "{\"ph\":3}\n",
           "{\"ph\":\"X\",\"name\":\"step\",\"ts\":1,\"dur\":\"a text\"},\n",
           "{\"ph\":\"M\",\"name\":\"x\",\"args\":{},\"ts\":\"a text\"},\n",
           "{\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":7}},\n",
           "{\"ph\":\"M\",\"name\":\"capstan_end\",\"args\":{\"left_out\":\"a text\"}},\n",
           "{\"ph\":\"M\",\"name\":\"x\",\"args\":{\"a\":" + std::string(100'000, '[') +
               std::string(100'000, ']') + "}},\n"}) {
    Write("bad", good.substr(0, second) + damage + good.substr(second));
    const auto merged = MergeTraces({Path("good"), Path("bad")}, Path("all"));
    EXPECT_TRUE(absl::IsInvalidArgument(merged.status())) << damage;
    EXPECT_THAT(std::string(merged.status().message()),
                HasSubstr(absl::StrCat(Path("bad"), ", line 3: expected a trace event, got ",
                                       damage.substr(0, 3))));
    EXPECT_FALSE(std::filesystem::exists(Path("all"))) << "a part of it passes for all";
  }
}

TEST_F(MergeTracesTest, OtherFilesAreRefused) {
  for (const std::string text :
       {"", "[\n", "a text\n", "[\n{\"ph\":\"X\",\"name\":\"a\",\"ts\":1}\n]\n",
        "[\n{\"ph\":\"M\",\"name\":\"capstan_clock\",\"args\":{}}\n]\n"}) {
    Write("other", text);
    const auto merged = MergeTraces({Path("other")}, Path("all"));
    EXPECT_TRUE(absl::IsInvalidArgument(merged.status())) << text;
    EXPECT_THAT(std::string(merged.status().message()),
                AllOf(HasSubstr(Path("other")), HasSubstr("capstan_clock")));
  }
  EXPECT_TRUE(absl::IsNotFound(MergeTraces({Path("none")}, Path("all")).status()));
}

TEST_F(MergeTracesTest, AFileThatEndsBeforeItsFirstEventIsToBeMovedAway) {
  FakeClock clock;
  Trace("good", &clock, {});
  const std::pair<size_t, std::string> cuts[] = {{0, ""}, {2, ", line 1"}, {20, ", line 2"}};
  for (const auto& [size, line] : cuts) {
    Write("cut", Read("good").substr(0, size));
    EXPECT_EQ(MergeTraces({Path("cut")}, Path("all")).status().message(),
              absl::StrCat("trace file ", Path("cut"), line,
                           ": expected the event capstan_clock of a Capstan process, got the end "
                           "of the file; the file is cut, damaged or no trace of Capstan: move it "
                           "away"));
  }
}

TEST_F(MergeTracesTest, AnOutputThatCannotBeWrittenIsNamed) {
  FakeClock clock;
  Trace("good", &clock, {});
  const auto merged = MergeTraces({Path("good")}, "/nonexistent/all.json");
  EXPECT_TRUE(absl::IsUnavailable(merged.status()));
  EXPECT_THAT(std::string(merged.status().message()), HasSubstr("/nonexistent/all.json"));
}

}  // namespace
}  // namespace capstan
