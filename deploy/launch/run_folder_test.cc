#include "deploy/launch/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/checkpoint/checkpoint_folder.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(RunFolderTest, TwoRunsCannotHaveTheSameFolderAtTheSameTime) {
  const std::string folder = ::testing::TempDir() + "/run_folder";
  const std::string log = folder + "/worker-0.log";
  absl::StatusOr<OpenFile> first = PrepareRunFolder(folder, /*job_file=*/"");
  ASSERT_TRUE(first.ok()) << first.status();
  std::ofstream(log) << "of the first run";
  fs::create_directories(folder + "/coordinator.state/term-000001");
  fs::create_directories(folder + "/state");

  const absl::Status second = PrepareRunFolder(folder, /*job_file=*/"").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("--run_dir: expected a folder that no other run uses"));
  EXPECT_TRUE(fs::exists(log));

  first = absl::CancelledError("it has ended");
  EXPECT_TRUE(PrepareRunFolder(folder, /*job_file=*/"").ok());
  EXPECT_FALSE(fs::exists(log)) << "it is of an earlier run";
  EXPECT_FALSE(fs::exists(folder + "/coordinator.state"));
  EXPECT_TRUE(fs::exists(folder + "/state")) << "it has another name";
}

TEST(RunFolderTest, CheckpointsMayLieInTheSameFolder) {
  const std::string folder = ::testing::TempDir() + "/run_folder_with_checkpoints";
  const absl::StatusOr<OpenFile> run = PrepareRunFolder(folder, /*job_file=*/"");
  ASSERT_TRUE(run.ok()) << run.status();
  const auto checkpoints = OpenCheckpointFolder(folder, /*token=*/1);
  EXPECT_TRUE(checkpoints.ok()) << checkpoints.status();
}

}  // namespace
}  // namespace capstan
