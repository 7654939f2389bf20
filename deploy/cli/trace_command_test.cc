#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "common/base/fake_clock.h"
#include "common/trace/tracer.h"
#include "deploy/cli/commands.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TraceCommandTest : public testing::Test {
 protected:
  TraceCommandTest()
      : folder_(testing::TempDir() +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  // A process's trace, with one span of 2 s.
  void Trace(const std::string& name, const std::string& file) {
    Tracer::Options options;
    options.path = folder_ + "/" + file;
    options.clock = &clock_;
    options.clock_offset.uncertainty = absl::Nanoseconds(34'500);
    const std::unique_ptr<Tracer> tracer = Tracer::Create(options).value();
    tracer->NameProcess(name, /*rank=*/0);
    tracer->AddSpan(1, "step", clock_.Now(), clock_.Now() + absl::Seconds(2), {});
    ASSERT_TRUE(tracer->Finish().ok());
  }

  FakeClock clock_;
  std::ostringstream out_;
  const std::string folder_;
};

TEST_F(TraceCommandTest, SaysWhatItWroteAndHowItIsOpened) {
  Trace("worker 0", "worker-0.trace.json");
  Trace("server 0", "server-0.trace.json");
  const absl::Status status = TraceCommand(folder_, "", out_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out_.str(),
            "server 0: 1 events, clock within 35us\nworker 0: 1 events, clock within "
            "35us\n" +
                folder_ +
                "/trace.json: 2 events of 2 processes, 2.000 s; open it at "
                "https://ui.perfetto.dev or chrome://tracing\n");
  std::ifstream file(folder_ + "/trace.json");
  EXPECT_FALSE(nlohmann::json::parse(file).empty());
}

TEST_F(TraceCommandTest, ASecondTimeItsOwnOutputIsNotMerged) {
  Trace("worker 0", "worker-0.trace.json");
  const std::string output = folder_ + "/all.trace.json";
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = TraceCommand(folder_, output, out_);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_THAT(out_.str(), Not(HasSubstr("2 processes")));
}

TEST_F(TraceCommandTest, TracesOfOtherMachinesAreMergedToo) {
  std::filesystem::create_directories(folder_ + "/10.0.0.2");
  Trace("worker 0", "worker-0.trace.json");
  Trace("worker 1", "10.0.0.2/worker-0.trace.json");
  ASSERT_TRUE(TraceCommand(folder_, "", out_).ok());
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("worker 1: 1 events"), HasSubstr("of 2 processes")));
}

TEST_F(TraceCommandTest, AFolderWithoutTracesSaysHowTheyAreMade) {
  EXPECT_THAT(std::string(TraceCommand(folder_, "", out_).message()),
              AllOf(HasSubstr(folder_), HasSubstr("capstan run --trace")));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/trace.json"));
}

TEST_F(TraceCommandTest, AMissingFolderIsNamed) {
  EXPECT_THAT(std::string(TraceCommand("/nonexistent/run", "", out_).message()),
              HasSubstr("expected the folder of a run, got /nonexistent/run"));
}

TEST_F(TraceCommandTest, ADamagedFileIsNamed) {
  std::ofstream(folder_ + "/worker-0.trace.json") << "[\n{\"ph\":";
  EXPECT_THAT(std::string(TraceCommand(folder_, "", out_).message()),
              HasSubstr("worker-0.trace.json"));
}

}  // namespace
}  // namespace capstan
