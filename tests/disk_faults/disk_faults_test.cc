// A coordinator's state on a disk that fails, and with processes that are killed. What they have
// not synced is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/process/forked_process.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kFolder[] = "tests/disk_faults/";

class DiskFaultsTest : public testing::Test {
 protected:
  DiskFaultsTest() {
    std::string folder = fs::canonical(testing::TempDir()).string() + "/disk-XXXXXX";
    root_ = mkdtemp(folder.data());
    dir_ = root_ + "/state";
    fs::create_directory(dir_);
  }

  // saving_coordinator with this folder and `steps`. It is killed by its operation `kill_at`, if
  // that is not 0.
  std::unique_ptr<ForkedProcess> Start(const std::string& fault, int kill_at = 0,
                                       const std::string& steps = "") {
    return std::make_unique<ForkedProcess>([&](ForkedProcess::Parent& parent) {
      dup2(parent.in(), STDIN_FILENO);
      dup2(parent.out(), STDOUT_FILENO);
      setenv("FAULTY_DISK_DIR", dir_.c_str(), 1);
      setenv("FAULTY_DISK_FAULT", fault.c_str(), 1);
      if (has_switch_) setenv("FAULTY_DISK_SWITCH", Switch().c_str(), 1);
      setenv("FAULTY_DISK_KILL_AT", absl::StrCat(kill_at).c_str(), 1);
      setenv("LD_PRELOAD", absl::StrCat(kFolder, "libfaulty_disk.so").c_str(), 1);
      const std::string program = absl::StrCat(kFolder, "saving_coordinator");
      execl(program.c_str(), program.c_str(), dir_.c_str(), steps.c_str(), nullptr);
      perror(program.c_str());
    });
  }
  static std::string Ask(ForkedProcess& process, const std::string& line) {
    process.WriteLine(line);
    return process.ReadLine();
  }
  std::string Switch() const { return root_ + "/switch"; }
  void TurnOn() { std::ofstream(Switch()) << "on"; }
  void TurnOff() { fs::remove(Switch()); }

  // The number at the end of a line.
  static int64_t NumberIn(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    int64_t number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(words.back(), &number)) << line;
    return number;
  }

  std::string root_;
  std::string dir_;
  bool has_switch_ = false;
};

// The parameter: a fault, and what the system says of it.
class PassingFaultTest : public DiskFaultsTest,
                         public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(PassingFaultTest, TheCoordinatorGoesOnAfterIt) {
  has_switch_ = true;
  const auto coordinator = Start(GetParam().first);
  ASSERT_EQ(coordinator->ReadLine(), "term 1 after -1");
  ASSERT_EQ(Ask(*coordinator, "save 3"), "OK");
  TurnOn();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Ask(*coordinator, "save 4"),
                AllOf(StartsWith("UNAVAILABLE: " + dir_ + "/term-000001/state-0000000002"),
                      HasSubstr(GetParam().second)));
  }
  EXPECT_THAT(Ask(*coordinator, "save 6"),
              AllOf(StartsWith("UNAVAILABLE: " + dir_ + "/term-000001/constants-"),
                    HasSubstr(GetParam().second)));
  TurnOff();
  EXPECT_EQ(Ask(*coordinator, "save 7"), "OK");
  coordinator->Kill();
  EXPECT_EQ(Start("")->ReadLine(), "term 2 after 7");
}

INSTANTIATE_TEST_SUITE_P(Faults, PassingFaultTest,
                         testing::Values(std::make_pair("full", "No space left on device"),
                                         std::make_pair("fsync", "Input/output error"),
                                         std::make_pair("read_only", "Read-only file system")),
                         [](const auto& info) { return std::string(info.param.first); });

TEST_F(DiskFaultsTest, AFolderThatCannotBeWrittenIsNamed) {
  EXPECT_EQ(Start("read_only")->ReadLine(),
            "UNAVAILABLE: " + dir_ +
                "/lock: expected a file that can be written, got \"Read-only file system\"");
}

TEST_F(DiskFaultsTest, AFileSystemWithoutLocksIsUsed) {
  EXPECT_EQ(Start("no_locks")->ReadLine(), "term 1 after -1");
}

TEST_F(DiskFaultsTest, WhatIsNotSyncedIsLost) {
  const auto coordinator = Start("lose");
  ASSERT_EQ(coordinator->ReadLine(), "term 1 after -1");
  ASSERT_EQ(Ask(*coordinator, "careless"), "done");
  coordinator->Kill();
  EXPECT_FALSE(fs::exists(dir_ + "/careless"));
  EXPECT_EQ(fs::file_size(dir_ + "/careless.unfinished"), 0u);
}

// The parameter: whether what is not synced is lost.
class KilledCoordinatorTest : public DiskFaultsTest, public testing::WithParamInterface<bool> {};

TEST_P(KilledCoordinatorTest, WhereverItIsKilledNothingThatWasSavedIsLost) {
  constexpr int64_t kSteps = 8;
  int64_t saved = -1;
  bool was_killed = true;
  int rounds = 0;
  for (int64_t step = 0; was_killed && !HasFailure(); step += kSteps) {
    SCOPED_TRACE(absl::StrCat("killed by operation ", ++rounds));
    const auto coordinator =
        Start(GetParam() ? "lose" : "", /*kill_at=*/rounds, absl::StrCat(step, " ", step + kSteps));
    std::string line = coordinator->ReadLine();
    if (!line.empty()) {
      EXPECT_GE(NumberIn(line), saved);
    }
    while (!line.empty() && line != "done") {
      saved = std::max(saved, NumberIn(line));
      line = coordinator->ReadLine();
    }
    was_killed = line.empty();
  }
  EXPECT_GT(rounds, 5 * kSteps) << "a save has five operations or more";
  EXPECT_EQ(NumberIn(Start("")->ReadLine()), saved);
}

INSTANTIATE_TEST_SUITE_P(Disks, KilledCoordinatorTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "loses" : "keeps");
});

}  // namespace
}  // namespace capstan
