#include "deploy/launch/worker_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "common/net/listening_socket.h"
#include "deploy/launch/child_process.h"

namespace capstan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ReadWorkerProgramTest, WithoutACommandThereIsNone) {
  const auto program = ReadWorkerProgram({{"device", "cuda"}});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->command, "");
}

TEST(ReadWorkerProgramTest, RanksBeginAt0OnOneMachineAndAreOpenOnSeveral) {
  const std::map<std::string, std::string> alone = {{"worker_command", "a; b"}};
  EXPECT_EQ(ReadWorkerProgram(alone)->command, "a; b");
  EXPECT_EQ(ReadWorkerProgram(alone)->first_rank, 0);
  std::map<std::string, std::string> several = {{"worker_command", "a"}, {"rendezvous", "h:1"}};
  EXPECT_FALSE(ReadWorkerProgram(several)->first_rank.has_value());
  several["first_rank"] = "6";
  EXPECT_EQ(ReadWorkerProgram(several)->first_rank, 6);
}

TEST(ReadWorkerProgramTest, FlagsThatCannotMatterAreRefused) {
  const auto error = [](std::map<std::string, std::string> flags) {
    return std::string(ReadWorkerProgram(flags).status().message());
  };
  EXPECT_THAT(error({{"worker_command", " "}}), HasSubstr("as in \"python train.py\""));
  EXPECT_THAT(error({{"worker_command", "a"}, {"device", "cuda"}}),
              StartsWith("--device: cannot matter"));
  EXPECT_THAT(error({{"worker_command", "a"}, {"record_history", "h"}}),
              StartsWith("--record_history: cannot matter"));
  EXPECT_THAT(error({{"master_port", "2"}}),
              StartsWith("--master_port: expected --worker_command"));
  EXPECT_THAT(error({{"worker_command", "a"}, {"master_port", "65536"}}),
              StartsWith("--master_port: expected a port, 1 to 65535, got \"65536\""));
  EXPECT_THAT(error({{"first_rank", "2"}}), StartsWith("--first_rank: expected --rendezvous"));
  EXPECT_THAT(error({{"worker_command", "a"}, {"first_rank", "2"}}),
              StartsWith("--first_rank: expected --rendezvous"));
  EXPECT_THAT(error({{"worker_command", "a"}, {"rendezvous", "h:1"}, {"first_rank", "-1"}}),
              HasSubstr("0 or more, got \"-1\""));
}

TEST(CheckRanksTest, RanksAreBelowTheNumberOfWorkers) {
  WorkerProgram program = {"train", /*world_size=*/4, /*first_rank=*/2};
  EXPECT_TRUE(CheckRanks(program, /*local_world_size=*/2).ok());
  EXPECT_THAT(std::string(CheckRanks(program, /*local_world_size=*/3).message()),
              HasSubstr("expected 3 ranks from 0 to 3"));
  program.command = "";
  EXPECT_FALSE(CheckRanks(program, /*local_world_size=*/3).ok());
  program.first_rank.reset();
  EXPECT_TRUE(CheckRanks(program, /*local_world_size=*/3).ok());
}

TEST(WorkerProgramTest, ThoseOfOneMachineMeetAtAFreePort) {
  WorkerProgram program = {"train", /*world_size=*/4};
  ASSERT_TRUE(MeetHere(program).ok());
  EXPECT_EQ(program.master_host, "127.0.0.1");
  EXPECT_GT(program.master_port, 0);
  const ListeningSocket free = ListenAt({"127.0.0.1", program.master_port});
  EXPECT_GE(free.socket, 0) << "nobody listens at " << program.master_port;
  WorkerProgram other = {"train", /*world_size=*/4};
  ASSERT_TRUE(MeetHere(other).ok());
  EXPECT_NE(other.master_port, program.master_port);
  if (free.socket >= 0) close(free.socket);
  program.master_port = 29501;
  ASSERT_TRUE(MeetHere(program).ok());
  EXPECT_EQ(program.master_port, 29501) << "it was given";
  WorkerProgram built_in;
  ASSERT_TRUE(MeetHere(built_in).ok());
  EXPECT_EQ(built_in.master_host, "");
}

TEST(WorkerProgramTest, ThoseOfSeveralMachinesMeetAtRankZeroIfTheyHaveRanks) {
  WorkerProgram program = {"train", /*world_size=*/4, /*first_rank=*/2};
  MeetAt("first", program);
  EXPECT_EQ(program.master_host, "first");
  EXPECT_EQ(program.master_port, kMasterPort);
  program.master_port = 29501;
  MeetAt("first", program);
  EXPECT_EQ(program.master_port, 29501) << "it was given";
  WorkerProgram without_ranks = {"train", /*world_size=*/4, /*first_rank=*/std::nullopt};
  MeetAt("first", without_ranks);
  EXPECT_EQ(without_ranks.master_host, "");
}

TEST(ProgramEnvironmentTest, HasWhatTorchrunSetsAndTheWayToTheJob) {
  unsetenv("OMP_NUM_THREADS");
  unsetenv("PYTHONUNBUFFERED");
  const WorkerProgram program = {"train", /*world_size=*/4, /*first_rank=*/2, "first", 29500};
  EXPECT_THAT(ProgramEnvironment(program, /*local_rank=*/1, /*local_world_size=*/2, "host:4000",
                                 "/some/keys"),
              ElementsAre("CAPSTAN_COORDINATOR=host:4000", "CAPSTAN_KEYS=/some/keys",
                          "CAPSTAN_RANK=3", "RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4",
                          "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=first", "MASTER_PORT=29500",
                          "OMP_NUM_THREADS=1", "PYTHONUNBUFFERED=1"));
}

TEST(ProgramEnvironmentTest, TheUserMaySayThatPythonBuffersWhatItPrints) {
  setenv("PYTHONUNBUFFERED", "", /*overwrite=*/1);
  EXPECT_THAT(ProgramEnvironment(WorkerProgram(), 0, 1, "h:1", ""),
              Not(Contains(StartsWith("PYTHONUNBUFFERED"))));
  unsetenv("PYTHONUNBUFFERED");
}

TEST(ProgramEnvironmentTest, ThreadsAreLeftToTheUserAndToAWorkerAlone) {
  const WorkerProgram program = {"train", /*world_size=*/4, /*first_rank=*/0};
  unsetenv("OMP_NUM_THREADS");
  EXPECT_THAT(ProgramEnvironment(program, 0, /*local_world_size=*/1, "h:1", ""),
              Not(Contains(StartsWith("OMP_"))));
  setenv("OMP_NUM_THREADS", "3", /*overwrite=*/1);
  EXPECT_THAT(ProgramEnvironment(program, 0, /*local_world_size=*/2, "h:1", ""),
              Not(Contains(StartsWith("OMP_"))));
  unsetenv("OMP_NUM_THREADS");
}

TEST(ProgramEnvironmentTest, KeysAreFoundFromEveryFolder) {
  const std::string expected = "CAPSTAN_KEYS=" + std::filesystem::absolute("keys").string();
  EXPECT_THAT(ProgramEnvironment(WorkerProgram(), 0, 1, "h:1", "keys"), Contains(expected));
}

TEST(ProgramEnvironmentTest, WhatIsNotKnownIsRemoved) {
  const WorkerProgram program = {"train", /*world_size=*/4, /*first_rank=*/std::nullopt};
  const auto environment = ProgramEnvironment(program, 1, 2, "host:4000", /*keys=*/"");
  EXPECT_THAT(environment, Contains("RANK"));
  EXPECT_THAT(environment, Contains("CAPSTAN_RANK"));
  EXPECT_THAT(environment, Contains("MASTER_ADDR"));
  EXPECT_THAT(environment, Contains("MASTER_PORT"));
  EXPECT_THAT(environment, Contains("CAPSTAN_KEYS"));
  EXPECT_THAT(environment, Contains("LOCAL_RANK=1"));
}

// Runs commands as `capstan run` does. All processes of a command hold a pipe that only they write
// to: an end of file means the end of all.
class ProgramShell {
 public:
  explicit ProgramShell(const std::string& name)
      : log_(::testing::TempDir() + "/program_" + name + ".log") {
    std::remove(log_.c_str());
    EXPECT_EQ(pipe(alive_), 0);
  }
  ~ProgramShell() {
    close(alive_[0]);
    CloseOwnEnd();
  }

  void Start(const std::string& command) {
    ChildProcess::Options shell;
    shell.program = "/bin/sh";
    shell.args = ProgramShellArgs(command);
    shell.has_input = true;
    shell.environment = {"GREETING=hello", "HOME"};
    shell.log_path = log_;
    auto started = ChildProcess::Start(shell);
    ASSERT_TRUE(started.ok()) << started.status();
    process = *std::move(started);
  }
  // Call it in the process that watches.
  void CloseOwnEnd() {
    if (alive_[1] >= 0) close(alive_[1]);
    alive_[1] = -1;
  }
  // What the command has written into the pipe; waits until all its processes have ended.
  std::string ReadToTheEnd() {
    std::string text;
    char byte;
    while (read(alive_[0], &byte, 1) == 1) text += byte;
    return text;
  }
  // The next byte of the pipe.
  char ReadByte() {
    char byte = 0;
    EXPECT_EQ(read(alive_[0], &byte, 1), 1);
    return byte;
  }
  // A command's redirection to the pipe.
  std::string ToPipe() const { return " >&" + std::to_string(alive_[1]) + " "; }
  int WaitForCode() {
    siginfo_t info;
    EXPECT_EQ(waitid(P_PID, process->pid(), &info, WEXITED | WNOWAIT), 0);
    return process->Poll()->code;
  }
  std::string Log() const {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

  std::unique_ptr<ChildProcess> process;

 private:
  const std::string log_;
  int alive_[2];
};

TEST(ProgramShellTest, RunsWhatAShellUnderstandsInTheCurrentFolder) {
  ProgramShell shell("understands");
  setenv("HOME", "/root", /*overwrite=*/1);
  shell.Start("sh -c \"echo first; echo '$GREETING'\"; pwd; cat; echo \"${HOME-no home}\"; exit 7");
  EXPECT_EQ(shell.WaitForCode(), 7);
  EXPECT_EQ(shell.Log(),
            "first\nhello\n" + std::filesystem::current_path().string() + "\nno home\n");
}

TEST(ProgramShellTest, AProgramMayWaitForAllItsChildren) {
  ProgramShell shell("waits");
  shell.Start(
      "exec python3 -c '\nimport os\nif os.fork() == 0: os._exit(3)\nos.wait()\n"
      "try: os.wait()\nexcept ChildProcessError: print(\"none is left\")'");
  EXPECT_EQ(shell.WaitForCode(), 0) << shell.Log();
  EXPECT_EQ(shell.Log(), "none is left\n");
}

TEST(ProgramShellTest, GrandchildrenEndWithTheCommand) {
  ProgramShell shell("leaves");
  shell.Start("(echo -n r" + shell.ToPipe() +
              "; exec sleep 1000) & sh -c 'sleep 1000 & wait' & exit 5");
  shell.CloseOwnEnd();
  EXPECT_EQ(shell.ReadByte(), 'r');
  EXPECT_EQ(shell.WaitForCode(), 5);
  EXPECT_EQ(shell.ReadToTheEnd(), "");
}

TEST(ProgramShellTest, GrandchildrenEndWithTheirOwner) {
  ProgramShell shell("owned");
  shell.Start("sh -c 'trap \"\" TERM; echo -n r" + shell.ToPipe() + "; sleep 1000; true'; true");
  shell.CloseOwnEnd();
  EXPECT_EQ(shell.ReadByte(), 'r');
  shell.process.reset();
  EXPECT_EQ(shell.ReadToTheEnd(), "");
}

TEST(ProgramShellTest, GrandchildrenEndWhenTheStartingProcessIsKilled) {
  ProgramShell shell("killed");
  const pid_t starter = fork();
  if (starter == 0) {
    shell.Start("sh -c 'echo -n r" + shell.ToPipe() + "; sleep 1000; true'; true");
    pause();
    _exit(1);
  }
  shell.CloseOwnEnd();
  EXPECT_EQ(shell.ReadByte(), 'r');
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  EXPECT_EQ(shell.ReadToTheEnd(), "");
}

}  // namespace
}  // namespace capstan
