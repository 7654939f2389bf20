#include "deploy/launch/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "common/base/printable_text.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

std::string LogPath(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name + ".log";
  std::remove(path.c_str());
  return path;
}

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::unique_ptr<ChildProcess> StartShell(const std::string& script, const std::string& log_path) {
  auto child = ChildProcess::Start({"/bin/sh", {"-c", script}, log_path});
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

// Waits for the end of the process, but does not reap it.
ChildExit WaitForExit(ChildProcess* child) {
  siginfo_t info;
  EXPECT_EQ(waitid(P_PID, child->pid(), &info, WEXITED | WNOWAIT), 0);
  return child->Poll().value_or(ChildExit{/*code=*/-1});
}

TEST(ChildProcessTest, BothOutputsAreAppendedToTheLog) {
  const std::string log = LogPath("both_outputs");
  std::ofstream(log) << "before\n";
  auto child = StartShell("echo out; echo err >&2; exit 3", log);
  const ChildExit exit = WaitForExit(child.get());
  EXPECT_EQ(exit.code, 3);
  EXPECT_FALSE(exit.ok());
  EXPECT_EQ(exit.ToString(), "exit code 3");
  EXPECT_EQ(Contents(log), "before\nout\nerr\n");
}

TEST(ChildProcessTest, AnInputCanBeThatOfThisProcess) {
  const std::string log = LogPath("shared_input");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int own_input = dup(STDIN_FILENO);
  ASSERT_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  ASSERT_EQ(write(ends[1], "clicks\n", 7), 7);
  close(ends[1]);
  ChildProcess::Options options = {"/bin/cat", {}, log};
  options.shares_input = true;
  auto child = ChildProcess::Start(options);
  dup2(own_input, STDIN_FILENO);
  close(own_input);
  close(ends[0]);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(WaitForExit(child->get()).ok());
  EXPECT_EQ(Contents(log), "clicks\n");
}

TEST(ChildProcessTest, AnInputEndsWhenItIsToldTo) {
  const std::string log = LogPath("input");
  auto child = ChildProcess::Start({"/bin/sh", {"-c", "cat; exit 3"}, log, /*has_input=*/true});
  ASSERT_TRUE(child.ok()) << child.status();
  // Others do not hold the input open.
  auto other = ChildProcess::Start({"/bin/sleep", {"1000"}, LogPath("other")});
  ASSERT_TRUE(other.ok()) << other.status();
  (*child)->TouchInput();
  EXPECT_FALSE((*child)->Poll().has_value());
  (*child)->EndInput();
  EXPECT_EQ(WaitForExit(child->get()).code, 3);
  EXPECT_EQ(Contents(log), "\n");
  (*child)->TouchInput();
}

TEST(ChildProcessTest, ArgumentsArriveAsTheyAre) {
  const std::string log = LogPath("arguments");
  auto child = ChildProcess::Start({"/bin/echo", {"a b", "$HOME", ""}, log});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(WaitForExit(child->get()).ok());
  EXPECT_EQ(Contents(log), "a b $HOME \n");
}

TEST(ChildProcessTest, RunningProcessHasNoExitUntilItIsSignalled) {
  auto child = StartShell("exec sleep 1000", LogPath("running"));
  EXPECT_FALSE(child->Poll().has_value());
  child->Signal(SIGTERM);
  const ChildExit exit = WaitForExit(child.get());
  EXPECT_EQ(exit.signal, SIGTERM);
  EXPECT_EQ(exit.ToString(), "killed by signal 15");
  child->Signal(SIGTERM);
}

TEST(ChildProcessTest, HeldBackSignalsOfTheParentReachTheChild) {
  sigset_t signals, previous;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, &previous);
  auto child = StartShell("exec sleep 1000", LogPath("mask"));
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  child->Signal(SIGTERM);
  EXPECT_EQ(WaitForExit(child.get()).signal, SIGTERM);
}

TEST(ChildProcessTest, ProgramThatDoesNotExistIsAnErrorThatNamesIt) {
  const auto child = ChildProcess::Start({"/nonexistent/program", {}, LogPath("missing")});
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(child.status().message()), HasSubstr("/nonexistent/program"));
}

TEST(ChildProcessTest, LogThatCannotBeOpenedIsAnErrorThatNamesIt) {
  const auto child = ChildProcess::Start({"/bin/true", {}, "/nonexistent/child.log"});
  EXPECT_THAT(std::string(child.status().message()), HasSubstr("/nonexistent/child.log"));
}

TEST(ChildProcessTest, ChildIsNotInTheGroupOfTheTerminalsSignals) {
  auto child = StartShell("exec sleep 1000", LogPath("group"));
  EXPECT_EQ(getpgid(child->pid()), child->pid());
}

// The tests below read a pipe. Only the tested processes hold its other end, so an end of file
// means their end.
TEST(ChildProcessTest, DestructorKillsTheProcessAndItsChildren) {
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  auto child = StartShell("sleep 1000 & wait", LogPath("destructor"));
  close(alive[1]);
  child.reset();
  char byte;
  EXPECT_EQ(read(alive[0], &byte, 1), 0);
  close(alive[0]);
}

TEST(ChildProcessTest, KilledParentTakesItsChildWithIt) {
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  const std::string log = LogPath("parent");
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child = ChildProcess::Start({"/bin/sleep", {"1000"}, log});
    const char started = child.ok() ? 'y' : 'n';
    if (write(alive[1], &started, 1) == 1) pause();
    _exit(1);
  }
  close(alive[1]);
  char byte = 0;
  ASSERT_EQ(read(alive[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_EQ(read(alive[0], &byte, 1), 0);
  close(alive[0]);
}

std::string LastLineOf(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/tail.log";
  std::ofstream(path, std::ios::trunc) << text;
  return LastErrorLine(path);
}

TEST(LastErrorLineTest, LastLineIsTakenWhenItIsPlain) {
  EXPECT_EQ(LastLineOf("one\ncapstan_worker: no data\n\n"), "capstan_worker: no data");
}

TEST(LastErrorLineTest, InfoAndWarningsAfterTheErrorAreSkipped) {
  EXPECT_EQ(LastLineOf("E20301121 02:13:34.123456  1234 main.cc:12] no data\n"
                       "I20301121 02:13:34.123456  1234 main.cc:15] closing\n"
                       "W1121 02:13:34.123456  1234 main.cc:15] slowly\n"),
            "no data");
}

TEST(LastErrorLineTest, StackTraceIsSkipped) {
  EXPECT_EQ(LastLineOf("F1121 02:13:34.123456  1234 shard.cc:7] Check failed: x == y\n"
                       "*** Check failure stack trace: ***\n"
                       "    @     0x7f1c2d  google::LogMessage::Fail()\n"),
            "Check failed: x == y");
}

TEST(LastErrorLineTest, LogWithoutAnErrorSaysSo) {
  EXPECT_EQ(LastLineOf("I20301121 02:13:34.123456  1234 main.cc:15] listening\n"),
            "no error in its log");
}

TEST(LastErrorLineTest, OnlyTheEndOfALongLogIsRead) {
  EXPECT_EQ(LastLineOf(std::string(1 << 20, 'x') + "\nlast"), "last");
}

TEST(LastErrorLineTest, OfAProgressBarTheLastStateIsTaken) {
  std::string bar = "loads\n";
  for (int percent = 0; percent < 10'000; ++percent) {
    bar += "\r" + std::to_string(percent) + "%|#####     |";
  }
  EXPECT_EQ(LastLineOf(bar), "9999%|#####     |");
  EXPECT_EQ(LastLineOf(bar + "\r\n\r"), "9999%|#####     |");
  EXPECT_EQ(LastLineOf("no data\r\n"), "no data");
  const std::string path = ::testing::TempDir() + "/bar.log";
  std::ofstream(path, std::ios::trunc) << bar.substr(0, 300) << "\nkilled\n";
  EXPECT_EQ(LastLines(path, /*skipped_bytes=*/0, 3).back(), "killed");
  EXPECT_EQ(LastLines(path, /*skipped_bytes=*/0, 3).front(), "loads");
}
TEST(LastErrorLineTest, ALongLineIsCut) {
  EXPECT_LE(LastLineOf(std::string(60'000, 'x')).size(), kMostTextBytes);
}
TEST(LastErrorLineTest, WhatAnEarlierProcessHasWrittenIsSkipped) {
  const std::string path = ::testing::TempDir() + "/tail.log";
  std::ofstream(path, std::ios::trunc) << "no memory\n";
  EXPECT_EQ(LastErrorLine(path, /*skipped_bytes=*/3), "memory");
  EXPECT_EQ(LastErrorLine(path, /*skipped_bytes=*/10), "no error in its log");
}

TEST(LastErrorLineTest, EmptyOrMissingLogHasNoError) {
  EXPECT_EQ(LastLineOf(""), "no error in its log");
  EXPECT_EQ(LastErrorLine("/nonexistent/a.log"), "no error in its log");
}

}  // namespace
}  // namespace capstan
