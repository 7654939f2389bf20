// The flags of the programs: their help, and flags in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/job/job_flags.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(60);

class FlagsTest : public testing::Test {
 protected:
  FlagsTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }
  // The output of a program that ends with this code.
  std::string Output(const std::string& program, const std::vector<std::string>& args, int code) {
    const std::string name = absl::StrCat("program-", num_programs_++);
    processes_->Start(name, program, args);
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, code) << processes_->Log(name);
    return processes_->Log(name);
  }
  // Writes the file and returns the flag that reads it.
  std::string FlagFile(const std::string& name, const std::string& text) {
    std::ofstream(processes_->path(name)) << text;
    return "--flagfile=" + processes_->path(name);
  }

  std::unique_ptr<JobProcesses> processes_;
  int num_programs_ = 0;
};

// The names of the flags behind these blanks in a help text, as often as they are there.
std::multiset<std::string> FlagsIn(const std::string& help, const std::string& blanks) {
  std::multiset<std::string> names;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    if (!absl::ConsumePrefix(&line, blanks + "--")) continue;
    absl::ConsumePrefix(&line, "[no]");
    names.emplace(line.substr(0, line.find_first_of("= ")));
  }
  return names;
}

// The lines with headings.
std::multiset<std::string> HeadingsIn(const std::string& help) {
  std::multiset<std::string> headings;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(help, '\n'))) {
    if (absl::EndsWith(line, ":") && !absl::StartsWith(line, " ")) headings.insert(line);
  }
  return headings;
}

// Abseil knows the flags of a program's source file.
TEST_F(FlagsTest, EachFlagOfAProgramIsUnderOneHeadingOfItsHelp) {
  for (const std::string role : {"coordinator", "server", "worker"}) {
    SCOPED_TRACE(role);
    const std::string program = (role == "worker" ? "worker/capstan_" : "server/capstan_") + role;
    std::multiset<std::string> flags =
        FlagsIn(Output(program, {"--helpmatch=" + role + "_main.cc"}, /*code=*/1), "    ");
    EXPECT_EQ(flags.count("keys"), 1u);
    flags.insert({"flagfile", "help", "version"});
    if (role == "coordinator") {
      for (const std::string& name : JobFlagNames()) flags.insert(name);
    }
    const std::string help = Output(program, {"--help"}, /*code=*/0);
    EXPECT_THAT(help, StartsWith("Usage: capstan_" + role + " "));
    EXPECT_EQ(FlagsIn(help, "  "), flags);
    for (const std::string& heading : HeadingsIn(help)) {
      EXPECT_EQ(HeadingsIn(help).count(heading), 1u) << heading;
    }
    EXPECT_EQ(HeadingsIn(help).count("Trust:"), 1u);
    EXPECT_EQ(HeadingsIn(help).count("General:"), 1u);
  }
}

TEST_F(FlagsTest, HelpSaysUnitsAndDefaults) {
  EXPECT_THAT(Output("server/capstan_server", {"-h"}, /*code=*/0),
              AllOf(HasSubstr("\n  --rpc_deadline_seconds=SECONDS\n"), HasSubstr("Default: 30.\n"),
                    HasSubstr("Default: 127.0.0.1:0.\n")));
}

TEST_F(FlagsTest, EveryProgramOfAJobReadsFlagFiles) {
  const std::string port = processes_->path("port");
  const std::string job = FlagFile("job.flags", "# Job flags.\n--steps=7\n--num_servers=1\n");
  const std::string listens = FlagFile(
      "listens.flags", job + "\n--listen=127.0.0.1:0\n--port_file=" + port + "\n--seed=4\n");
  processes_->Start("coordinator", "server/capstan_coordinator",
                    {"--num_workers=2", listens, "--num_workers=1",
                     "--summary_json=" + processes_->path("summary")});
  ASSERT_TRUE(processes_->WaitUntil(kPatience, [&] { return !ReadFile(port).empty(); }))
      << processes_->Log("coordinator");
  const std::string member =
      FlagFile("member.flags", "\n  --coordinator=" + ReadFile(port) + "--rpc_deadline_seconds=20");
  processes_->Start("server", "server/capstan_server", {member});
  processes_->Start("worker", "worker/capstan_worker", {"--coordinator=nowhere:1", member});
  EXPECT_EQ(processes_->WaitForExit("coordinator", kPatience).code, 0)
      << processes_->Log("coordinator") << processes_->Log("server") << processes_->Log("worker");
  const auto summary = nlohmann::json::parse(ReadFile(processes_->path("summary")));
  EXPECT_EQ(summary["steps"], 7);
  EXPECT_EQ(summary["servers"], 1);
  EXPECT_EQ(summary["workers"], 1);
}

TEST_F(FlagsTest, ARunReadsJobFlagsFromAFileAndLaterFlagsWin) {
  const std::string flags =
      FlagFile("run.flags", "--steps=3\n--num_servers=1\n--run_dir=" + processes_->path("run"));
  Output("deploy/cli/capstan", {"run", flags, "--steps=5"}, /*code=*/0);
  const auto summary = nlohmann::json::parse(ReadFile(processes_->path("run/summary.json")));
  EXPECT_EQ(summary["steps"], 5);
  EXPECT_EQ(summary["servers"], 1);
}

TEST_F(FlagsTest, AWrongFileEndsEveryProgramBeforeItBegins) {
  const std::string flags = FlagFile("wrong.flags", "--keys=keys\nsteps=3\n");
  for (const std::string program :
       {"server/capstan_coordinator", "server/capstan_server", "worker/capstan_worker"}) {
    EXPECT_EQ(Output(program, {flags}, /*code=*/2),
              program.substr(program.find('/') + 1) + ": " + processes_->path("wrong.flags") +
                  ":2: expected --name=value, a comment that begins with #, or nothing; got "
                  "\"steps=3\"\n");
  }
}

TEST_F(FlagsTest, ErrorsAreJsonIfTheFileSaysSo) {
  const std::string flags = FlagFile("json.flags", "--log_format=json\n");
  EXPECT_THAT(Output("worker/capstan_worker", {flags, "stray"}, /*code=*/2),
              AllOf(StartsWith("{\""), HasSubstr("unexpected argument")));
}

}  // namespace
}  // namespace capstan
