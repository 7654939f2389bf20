// Whole jobs with --log_format=json: every line on standard error is an object.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/json_fields.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::nlohmann::json;
using ::testing::HasSubstr;

constexpr char kJson[] = "--log_format=json";
constexpr absl::Duration kPatience = absl::Seconds(30);

class LogFormatTest : public testing::Test {
 protected:
  LogFormatTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }
  // The log has standard error alone.
  void Start(const std::string& name, const std::string& program, std::vector<std::string> args) {
    args.insert(args.begin(), {"-c", "exec \"$0\" \"$@\" >/dev/null", program});
    processes_->Start(name, "/bin/bash", std::move(args));
  }
  void StartCoordinator(std::vector<std::string> args) {
    const std::string port = processes_->path("port");
    for (const std::string flag : {"--listen=127.0.0.1:0", "--lease_seconds=1.5",
                                   "--heartbeat_seconds=0.2", "--log_format=json"}) {
      args.push_back(flag);
    }
    args.push_back("--port_file=" + port);
    Start("coordinator", "server/capstan_coordinator", args);
    ASSERT_TRUE(processes_->WaitUntil(kPatience, [&] { return !ReadFile(port).empty(); }))
        << processes_->Log("coordinator");
    coordinator_ = ReadFile(port);
    coordinator_.pop_back();  // the newline
  }
  void StartMember(const std::string& name, const std::string& role) {
    Start(name, role + "/capstan_" + role,
          {"--coordinator=" + coordinator_, "--rpc_deadline_seconds=4", kJson});
    ASSERT_TRUE(processes_->WaitForLog(name, "registered as " + role, kPatience));
  }
  // Expects an object in each line, with what all lines have.
  std::vector<json> Lines(const std::string& name) {
    std::vector<json> lines;
    for (const absl::string_view line : absl::StrSplit(processes_->Log(name), '\n')) {
      if (line.empty()) continue;
      json parsed = ParseJson(line);
      EXPECT_TRUE(parsed.is_object()) << name << ": " << line;
      if (!parsed.is_object()) continue;
      for (const char* const field : {"time", "level", "role", "message", "source"}) {
        EXPECT_FALSE(TextIn(parsed, field).empty()) << name << ": " << field << ": " << line;
      }
      lines.push_back(std::move(parsed));
    }
    EXPECT_FALSE(lines.empty()) << name;
    return lines;
  }
  // The first line whose message has this text.
  json LineWith(const std::string& name, const std::string& text) {
    for (json& line : Lines(name)) {
      if (absl::StrContains(TextIn(line, "message"), text)) return line;
    }
    ADD_FAILURE() << name << " did not log \"" << text << "\": " << processes_->Log(name);
    return json::object();
  }
  // Waits for the end of a program with a wrong command line. Returns its only line.
  json OnlyLine(const std::string& program, const std::vector<std::string>& args) {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
    Start("program", program, args);
    EXPECT_NE(processes_->WaitForExit("program", kPatience).code, 0);
    const std::vector<json> lines = Lines("program");
    EXPECT_EQ(lines.size(), 1u) << processes_->Log("program");
    return lines.empty() ? json::object() : lines[0];
  }

  std::unique_ptr<JobProcesses> processes_;
  std::string coordinator_;
};

TEST_F(LogFormatTest, EveryLineOfAJobIsAnObjectWithTheRoleAndTheIdOfItsProcess) {
  StartCoordinator({"--num_servers=2", "--num_workers=2"});
  for (const std::string name : {"server-0", "server-1"}) StartMember(name, "server");
  for (const std::string name : {"worker-0", "worker-1"}) StartMember(name, "worker");
  for (const std::string name : {"worker-0", "worker-1", "server-0", "server-1", "coordinator"}) {
    EXPECT_TRUE(processes_->WaitForExit(name, absl::Seconds(60)).ok()) << processes_->Log(name);
    for (const json& line : Lines(name)) {
      EXPECT_EQ(line["role"], name.substr(0, name.find('-')));
      EXPECT_EQ(line["level"], "info") << line;
      EXPECT_FALSE(line.contains("reason")) << line;
    }
  }
  EXPECT_EQ(LineWith("worker-1", "registered as worker 1")["id"], 1);
  EXPECT_EQ(LineWith("server-1", "registered as server 1")["id"], 1);
  EXPECT_EQ(LineWith("worker-1", " steps")["step"], 0);
  EXPECT_EQ(LineWith("worker-1", " steps")["id"], 1);
  EXPECT_GT(CountIn(LineWith("worker-0", "all steps are done"), "step"), 0u);
  EXPECT_FALSE(LineWith("coordinator", "phase TRAINING").contains("id"));
}

TEST_F(LogFormatTest, ALostServerIsAReasonAndTheLastLinesAreObjectsToo) {
  StartCoordinator({"--num_servers=1", "--num_workers=1", "--steps=1000000"});
  StartMember("server-0", "server");
  StartMember("worker-0", "worker");
  ASSERT_TRUE(processes_->WaitForLog("worker-0", "training 1000000 steps", kPatience));
  processes_->Signal("server-0", SIGKILL);
  for (const std::string name : {"coordinator", "worker-0"}) {
    EXPECT_EQ(processes_->WaitForExit(name, kPatience).code, 1) << processes_->Log(name);
    const json last = Lines(name).back();
    EXPECT_EQ(last["level"], "error") << last;
    EXPECT_THAT(TextIn(last, "reason"), HasSubstr("server 0"));
    EXPECT_EQ(last["message"],
              "capstan_" + name.substr(0, name.find('-')) + ": " + TextIn(last, "reason"));
  }
  EXPECT_THAT(TextIn(LineWith("coordinator", "phase FAILED"), "reason"),
              HasSubstr("has been silent for 1.5 s (lease)"));
}

TEST_F(LogFormatTest, ErrorsOfTheCommandLineAreObjectsAndEscaped) {
  for (const std::string role : {"coordinator", "server", "worker"}) {
    const std::string program = (role == "worker" ? "worker" : "server") + ("/capstan_" + role);
    json line = OnlyLine(program, {"stray \x1b[2J\xff \"x\"\nz", kJson});
    EXPECT_THAT(TextIn(line, "message"),
                HasSubstr("unexpected argument \"stray \\x1b[2J\\xff \"x\"\nz\""));
    EXPECT_EQ(line["role"], role);
    EXPECT_EQ(line["level"], "error");
    line = OnlyLine(program, {kJson, "--unknown_flag"});
    EXPECT_THAT(TextIn(line, "message"), HasSubstr("unknown_flag"));
  }
}

TEST_F(LogFormatTest, AnUnknownFormatIsRefused) {
  for (const std::string program :
       {"server/capstan_coordinator", "server/capstan_server", "worker/capstan_worker"}) {
    processes_->Start("program", program, {"--log_format=xml"});
    EXPECT_EQ(processes_->WaitForExit("program", kPatience).code, 2);
    EXPECT_THAT(processes_->LastLine("program"),
                HasSubstr("--log_format: expected text or json, got \"xml\""));
  }
}

}  // namespace
}  // namespace capstan
