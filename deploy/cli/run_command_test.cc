#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/real_clock.h"
#include "common/job/load_job.h"
#include "deploy/cli/commands.h"
#include "deploy/launch/fake_programs.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kSucceed[] = "echo '{\"job\": \"night\", \"steps\": 5}' > $summary";

class RunCommandTest : public ::testing::Test {
 protected:
  RunCommandTest() : programs_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    Coordinator(kSucceed);
    programs_.Write("capstan_server", FakePrograms::kRunForever);
    programs_.Write("capstan_worker", FakePrograms::kRunForever);
    options_.own_path = programs_.Path("capstan");
    options_.run_dir = programs_.Path("run");
    options_.take_interrupt = [] { return false; };
    options_.terminal = [] { return std::nullopt; };
    options_.out = &out_;
    options_.clock = &clock_;
  }

  void Coordinator(const std::string& script) { programs_.Write("capstan_coordinator", script); }

  FakePrograms programs_;
  std::ostringstream out_;
  RealClock clock_;
  RunOptions options_;
};

TEST_F(RunCommandTest, SummaryIsPrintedAndCopied) {
  options_.summary_json = programs_.Path("copy.json");
  const absl::Status status = RunCommand(options_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), EndsWith("job night is done\n  steps              5\n"));
  std::string copy;
  std::getline(std::ifstream(options_.summary_json), copy);
  EXPECT_EQ(copy, "{\"job\": \"night\", \"steps\": 5}");
}

TEST_F(RunCommandTest, ATracedRunSaysWhatToDoWithItsTraces) {
  options_.has_trace = true;
  ASSERT_TRUE(RunCommand(options_).ok());
  EXPECT_THAT(out_.str(), EndsWith("traces: capstan trace " + options_.run_dir + "\n"));
}

TEST_F(RunCommandTest, EffectiveJobIsTheFileWithItsFlags) {
  options_.job_file = programs_.Path("in.textproto");
  std::ofstream(options_.job_file) << "optimizer { type: ADAM learning_rate: 0.5 }";
  options_.job_flags = {"--learning_rate=0.25"};
  ASSERT_TRUE(RunCommand(options_).ok());
  const auto job = LoadJobFile(programs_.Path("run/effective_job.textproto"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->optimizer().type(), v1::OptimizerSpec::ADAM);
  EXPECT_EQ(job->optimizer().learning_rate(), 0.25);
}

TEST_F(RunCommandTest, FailureNamesTheReasonAndTheLogs) {
  Coordinator("echo 'no such data' >&2; exit 1");
  EXPECT_EQ(RunCommand(options_).message(),
            "coordinator ended (exit code 1): no such data; logs in " + programs_.Path("run"));
}

TEST_F(RunCommandTest, AFailedJobHasASummaryToo) {
  options_.summary_json = programs_.Path("copy.json");
  Coordinator("echo 'of the coordinator' > $summary; exit 1");
  EXPECT_FALSE(RunCommand(options_).ok());
  std::string copy;
  std::getline(std::ifstream(options_.summary_json), copy);
  EXPECT_EQ(copy, "of the coordinator");

  // A coordinator that is killed writes none.
  Coordinator("kill -9 $$");
  options_.replaces_servers = false;
  const absl::Status status = RunCommand(options_);
  EXPECT_FALSE(status.ok());
  const auto summary = nlohmann::json::parse(std::ifstream(options_.summary_json), nullptr,
                                             /*allow_exceptions=*/false);
  EXPECT_EQ(summary["outcome"], "failed");
  EXPECT_EQ(summary["reason"], "coordinator ended (killed by signal 9): no error in its log");
  EXPECT_TRUE(std::filesystem::exists(programs_.Path("run/summary.json")));
}

TEST_F(RunCommandTest, AJobThatStartsAgainKeepsItsBitsUnlessToldOtherwise) {
  const auto allows_other_bits = [this] {
    EXPECT_TRUE(RunCommand(options_).ok());
    const auto job = LoadJobFile(programs_.Path("run/effective_job.textproto"));
    return job.ok() && job->membership().allow_other_bits();
  };
  options_.job_flags = {"--checkpoint_seconds=60",
                        "--checkpoint_dir=" + programs_.Path("checkpoints")};
  EXPECT_TRUE(allows_other_bits());
  options_.most_restarts = 1;
  EXPECT_FALSE(allows_other_bits());
  options_.job_flags.push_back("--allow_other_bits");
  EXPECT_TRUE(allows_other_bits());
}

TEST_F(RunCommandTest, APlaceIsHeldAsLongAsMembersAreAwaitedIfLostWorkersAreReplaced) {
  const auto replace_seconds = [this](const std::vector<std::string>& flags) {
    options_.job_flags = flags;
    EXPECT_TRUE(RunCommand(options_).ok());
    const auto job = LoadJobFile(programs_.Path("run/effective_job.textproto"));
    return job.ok() ? job->membership().replace_seconds() : -1;
  };
  EXPECT_EQ(replace_seconds({}), 10);
  options_.most_restarts = 1;  // Without checkpoints, only workers are replaced.
  EXPECT_EQ(replace_seconds({"--registration_seconds=70"}), 70);
  EXPECT_GT(replace_seconds({"--registration_seconds=0"}), 1e6);
  EXPECT_EQ(replace_seconds({"--replace_seconds=3"}), 3);
}

TEST_F(RunCommandTest, WhatAnEarlierRunLeftIsNotMistakenForThisOne) {
  ASSERT_TRUE(RunCommand(options_).ok());
  std::ofstream(programs_.Path("run/progress.jsonl")) << "of the earlier run";
  std::ofstream(programs_.Path("run/report.html")) << "of the earlier run";
  std::ofstream(programs_.Path("run/worker-7.trace.json")) << "of the earlier run";
  Coordinator("exit 0");
  const absl::Status status = RunCommand(options_);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a summary"));
  EXPECT_FALSE(absl::IsInvalidArgument(status)) << "exit code 2 means that nothing was started";
  EXPECT_EQ(std::filesystem::file_size(programs_.Path("run/progress.jsonl")), 0);
  EXPECT_FALSE(std::filesystem::exists(programs_.Path("run/report.html")));
  EXPECT_FALSE(std::filesystem::exists(programs_.Path("run/worker-7.trace.json")));
}

TEST_F(RunCommandTest, WhatNoRunHasWrittenStaysInTheRunFolder) {
  std::filesystem::create_directories(options_.run_dir);
  const std::vector<std::string> others = {
      "notes.log",     "worker-one.log",  "worker-1.log.gz",     "my.trace.json",
      "job.textproto", "model.textproto", "server-1.trace.json~"};
  for (const std::string& name : others) std::ofstream(programs_.Path("run/" + name)) << name;
  ASSERT_TRUE(RunCommand(options_).ok());
  for (const std::string& name : others) {
    std::string text;
    std::getline(std::ifstream(programs_.Path("run/" + name)), text);
    EXPECT_EQ(text, name);
  }
}

TEST_F(RunCommandTest, AJobFileInTheRunFolderIsLeftAsItIs) {
  std::filesystem::create_directories(options_.run_dir);
  options_.job_file = programs_.Path("run/job.textproto");
  const std::string text = "seed: 7  # a comment of its author";
  std::ofstream(options_.job_file) << text;
  options_.job_flags = {"--batch_size=8"};
  ASSERT_TRUE(RunCommand(options_).ok());
  std::string kept;
  std::getline(std::ifstream(options_.job_file), kept);
  EXPECT_EQ(kept, text);
}

TEST_F(RunCommandTest, AJobFileThatTheRunWouldReplaceIsRefused) {
  ASSERT_TRUE(RunCommand(options_).ok());
  options_.job_file = programs_.Path("run/effective_job.textproto");
  options_.run_dir = programs_.Path("run/.");
  EXPECT_THAT(std::string(RunCommand(options_).message()),
              AllOf(HasSubstr("effective_job.textproto"), HasSubstr("another --run_dir")));
}

TEST_F(RunCommandTest, InvalidJobStartsNothing) {
  options_.job_flags = {"--batch_size=0"};
  EXPECT_THAT(std::string(RunCommand(options_).message()), HasSubstr("--batch_size: expected"));
  EXPECT_FALSE(std::filesystem::exists(options_.run_dir));
}

TEST_F(RunCommandTest, MissingProgramIsNamed) {
  options_.own_path = programs_.Path("elsewhere/capstan");
  EXPECT_THAT(std::string(RunCommand(options_).message()), HasSubstr("capstan_coordinator"));
}

TEST_F(RunCommandTest, RunFolderThatCannotBeMadeIsNamed) {
  std::ofstream(programs_.Path("file")) << "x";
  options_.run_dir = programs_.Path("file/run");
  EXPECT_THAT(std::string(RunCommand(options_).message()),
              AllOf(HasSubstr("file/run"), HasSubstr("--run_dir")));
}

TEST_F(RunCommandTest, SummaryPathThatCannotBeWrittenStartsNothing) {
  for (const std::string& path : {std::string("/nonexistent/summary.json"), programs_.Path("")}) {
    options_.summary_json = path;
    EXPECT_THAT(std::string(RunCommand(options_).message()),
                AllOf(HasSubstr("--summary_json: expected a file that can be written, got"),
                      HasSubstr(path)));
  }
  EXPECT_FALSE(std::filesystem::exists(options_.run_dir));
}

TEST_F(RunCommandTest, SummaryWhoseFolderVanishesIsAnError) {
  std::filesystem::create_directory(programs_.Path("copies"));
  options_.summary_json = programs_.Path("copies/summary.json");
  Coordinator("rmdir " + programs_.Path("copies") + "\n" + kSucceed);
  EXPECT_THAT(std::string(RunCommand(options_).message()),
              AllOf(HasSubstr("job succeeded"), HasSubstr("copies/summary.json")));
}

TEST_F(RunCommandTest, RelativePathsOfFlagsCountFromTheCurrentFolder) {
  std::filesystem::current_path(programs_.Path(""));
  options_.job_flags = {"--data_format=csv", "--data_path=train.csv"};
  ASSERT_TRUE(RunCommand(options_).ok());
  const auto job = LoadJobFile(programs_.Path("run/effective_job.textproto"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->data().path(), programs_.Path("train.csv"));
}

TEST_F(RunCommandTest, DeadlineOfTheJobIsThatOfItsMembers) {
  Coordinator(std::string(FakePrograms::kListen) + "\nuntil grep -q deadline " +
              programs_.Path("run/server-0.log") + "; do sleep 0.01; done\n" + kSucceed);
  programs_.Write("capstan_server", "echo $@");
  options_.job_flags = {"--rpc_deadline_seconds=12.5"};
  ASSERT_TRUE(RunCommand(options_).ok());
  std::string log;
  std::getline(std::ifstream(programs_.Path("run/server-0.log")), log);
  EXPECT_THAT(log, HasSubstr("--rpc_deadline_seconds=12.5"));
}

TEST_F(RunCommandTest, ACommandOfTheWorkersImpliesTheirModel) {
  options_.program.command = "exec sleep 1000";
  ASSERT_TRUE(RunCommand(options_).ok());
  const auto job = LoadJobFile(programs_.Path("run/effective_job.textproto"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model().type(), v1::ModelSpec::PROGRAM);
}

TEST_F(RunCommandTest, ACommandOfTheWorkersNeedsAJobForPrograms) {
  options_.program.command = "exec sleep 1000";
  options_.job_flags = {"--model=mlp"};
  EXPECT_THAT(std::string(RunCommand(options_).message()),
              HasSubstr("--model: expected program, as there is a --worker_command"));
  options_.job_flags.clear();
  options_.job_file = programs_.Path("in.textproto");
  std::ofstream(options_.job_file) << "model { type: LOGISTIC_REGRESSION hidden: 8 }";
  EXPECT_THAT(std::string(RunCommand(options_).message()),
              AllOf(HasSubstr("--worker_command: expected a job for programs, got the model "
                              "LOGISTIC_REGRESSION in " +
                              options_.job_file),
                    HasSubstr("write model { type: PROGRAM } there")));
  std::ofstream(options_.job_file) << "model { type: PROGRAM }";
  EXPECT_TRUE(RunCommand(options_).ok());
  std::ofstream(options_.job_file) << "optimizer { type: SGD }";
  EXPECT_TRUE(RunCommand(options_).ok());
}

TEST_F(RunCommandTest, AJobForProgramsNeedsTheCommandOfTheWorkers) {
  options_.job_flags = {"--model=program"};
  EXPECT_THAT(std::string(RunCommand(options_).message()),
              HasSubstr("--worker_command: expected the command of the workers"));
  EXPECT_FALSE(std::filesystem::exists(options_.run_dir));
}

// Says that the job trains, and writes a file when it is asked.
class FakeCoordinator : public v1::CoordinatorService::Service {
 public:
  explicit FakeCoordinator(std::string asked_file) : asked_file_(std::move(asked_file)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusReply* reply) override {
    reply->mutable_view()->set_phase(v1::TRAINING);
    std::ofstream(asked_file_) << "yes";
    return grpc::Status::OK;
  }
  // A script that listens here until the file is written.
  std::string Script() const {
    return "echo 127.0.0.1:" + std::to_string(port_) +
           " > $port_file.new; mv $port_file.new $port_file\nuntil [ -e " + asked_file_ +
           " ]; do sleep 0.01; done\n";
  }

 private:
  const std::string asked_file_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(RunCommandTest, ARestartedJobIsAskedAnewAndSaysHowOftenBeforeItsSummary) {
  options_.most_restarts = 5;
  options_.job_flags = {"--checkpoint_dir=" + programs_.Path("checkpoints"),
                        "--checkpoint_steps=50"};
  const FakeCoordinator first(programs_.Path("first")), second(programs_.Path("second"));
  Coordinator("if [ ! -e " + programs_.Path("first") + " ]; then\n" + first.Script() +
              "exit 3; fi\n" + second.Script() + kSucceed);
  // Nobody waits for them at the end.
  programs_.Write("capstan_server", "exit 0");
  const absl::Status status = RunCommand(options_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("coordinator ended (exit code 3): no error in its log; "
                                          "restart 1 as it first began: "),
                                HasSubstr("\nrestarted 1 time\njob night is done\n")));
}

TEST_F(RunCommandTest, ACoordinatorThatGoesOnForALostOneIsAskedAnew) {
  const FakeCoordinator first(programs_.Path("first")), second(programs_.Path("second"));
  Coordinator("if [ ! -e " + programs_.Path("first") + " ]; then\n" + first.Script() +
              "kill -9 $$; fi\n" + second.Script() + kSucceed);
  programs_.Write("capstan_server", "exit 0");
  const absl::Status status = RunCommand(options_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("; another one goes on with the job\n"),
                                HasSubstr("\n1 coordinator replaced\njob night is done\n")));
}

TEST_F(RunCommandTest, AJobThatStaysIsNotStartedAgain) {
  options_.most_restarts = 1;
  options_.job_flags = {"--stay", "--checkpoint_seconds=60",
                        "--checkpoint_dir=" + programs_.Path("checkpoints")};
  EXPECT_THAT(std::string(RunCommand(options_).message()),
              HasSubstr("--restart: expected a job with an end, got --stay"));
}

TEST_F(RunCommandTest, AJobWithoutCheckpointsReplacesWorkersAndMayHaveAHistory) {
  options_.most_restarts = 1;
  options_.record_history = programs_.Path("history");
  const absl::Status status = RunCommand(options_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(RunCommandTest, AJobThatStartsAgainWritesCheckpointsByItselfAndHasNoHistory) {
  options_.most_restarts = 1;
  options_.job_flags = {"--checkpoint_dir=" + programs_.Path("checkpoints")};
  EXPECT_THAT(
      std::string(RunCommand(options_).message()),
      AllOf(HasSubstr("--restart: expected"), HasSubstr("add --checkpoint_steps=STEPS or")));
  options_.job_flags.push_back("--checkpoint_seconds=60");
  options_.record_history = programs_.Path("history");
  EXPECT_THAT(std::string(RunCommand(options_).message()), HasSubstr("--record_history: expected"));
  EXPECT_FALSE(std::filesystem::exists(options_.run_dir));
}

TEST(ReadMostRestartsTest, OnFailureMayHaveANumber) {
  EXPECT_EQ(ReadMostRestarts("").value_or(-1), 0);
  EXPECT_EQ(ReadMostRestarts("never").value_or(-1), 0);
  EXPECT_EQ(ReadMostRestarts("on_failure:3").value_or(-1), 3);
  EXPECT_GT(ReadMostRestarts("on_failure").value_or(-1), 1'000'000);
  for (const std::string restart : {"always", "on_failure3", "on_failure:", "on_failure:0",
                                    "on_failure:-1", "on_failure:3x", "on_failure:99999999999"}) {
    EXPECT_THAT(std::string(ReadMostRestarts(restart).status().message()),
                AllOf(HasSubstr("flag --restart: expected never, on_failure, or on_failure:N"),
                      EndsWith("; got " + restart)));
  }
}

TEST_F(RunCommandTest, DefaultRunFolderHasTheNameOfTheJobAndIsNew) {
  std::filesystem::current_path(::testing::TempDir());
  options_.run_dir = "";
  options_.job_flags = {"--job_name=night"};
  ASSERT_TRUE(RunCommand(options_).ok());
  ASSERT_TRUE(RunCommand(options_).ok());
  const std::filesystem::directory_iterator runs("runs");
  EXPECT_EQ(std::distance(begin(runs), end(runs)), 2);
  EXPECT_THAT(out_.str(), HasSubstr("logs in runs/night-"));
}

}  // namespace
}  // namespace capstan
