#include "server/coordinator/job_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/example_checkpoint.h"
#include "server/checkpoint/manifest.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kToken = 3;

class JobFilesTest : public testing::Test {
 protected:
  // ExampleJob with its checkpoints in folder_.
  Coordinator::Options Options(const std::string& restore) {
    Coordinator::Options options;
    options.job = ExampleJob();
    options.folder_token = kToken;
    options.job.mutable_checkpoint()->set_dir(folder_);
    options.job.mutable_checkpoint()->set_restore(restore);
    return options;
  }
  std::string ErrorWith(const std::string& restore) {
    Coordinator::Options options = Options(restore);
    return std::string(OpenJobFiles(/*takes_over=*/false, options).message());
  }

  const std::string folder_ = NewFolder();
};

TEST_F(JobFilesTest, LatestWithoutACheckpointBeginsAnew) {
  Coordinator::Options options = Options("latest");
  ASSERT_TRUE(OpenJobFiles(/*takes_over=*/false, options).ok());
  EXPECT_FALSE(options.restored.has_value());
  ASSERT_NE(options.checkpoints, nullptr);
  EXPECT_EQ(options.checkpoints->token(), kToken);
  // A folder with an incomplete one has none either.
  ASSERT_TRUE(options.checkpoints->Create().ok());
  options = Options("latest");
  ASSERT_TRUE(OpenJobFiles(/*takes_over=*/false, options).ok());
  EXPECT_FALSE(options.restored.has_value());
}

TEST_F(JobFilesTest, LatestIsTheNewestCompleteOne) {
  WriteExampleCheckpoint(folder_, /*step=*/40);
  const std::string newest = WriteExampleCheckpoint(folder_, /*step=*/80);
  std::filesystem::create_directory(folder_ + "/checkpoint-000003");
  Coordinator::Options options = Options("latest");
  const absl::Status status = OpenJobFiles(/*takes_over=*/false, options);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(options.restored.has_value());
  EXPECT_EQ(options.restored->path, newest);
  EXPECT_EQ(options.restored->manifest.step(), 80);
}

TEST_F(JobFilesTest, AnyCheckpointCanBeNamedAlsoOfAnotherFolder) {
  const std::string older = WriteExampleCheckpoint(folder_, /*step=*/40);
  WriteExampleCheckpoint(folder_, /*step=*/80);
  Coordinator::Options options = Options(older);
  ASSERT_TRUE(OpenJobFiles(/*takes_over=*/false, options).ok());
  EXPECT_EQ(options.restored->manifest.step(), 40);
  options = Options(older);
  options.job.mutable_checkpoint()->clear_dir();
  ASSERT_TRUE(OpenJobFiles(/*takes_over=*/false, options).ok());
  EXPECT_EQ(options.restored->manifest.step(), 40);
  EXPECT_EQ(options.checkpoints, nullptr) << "this job writes none";
}

TEST_F(JobFilesTest, AFolderWithCheckpointsIsNotForAJobThatBeginsAnew) {
  const std::string newest = WriteExampleCheckpoint(folder_, /*step=*/40);
  EXPECT_THAT(ErrorWith(""), AllOf(HasSubstr("--checkpoint_dir: "), HasSubstr("got " + newest),
                                   HasSubstr("--restore=latest")));
}

TEST_F(JobFilesTest, ACheckpointOfAnotherJobIsRefusedWithTheDifference) {
  const std::string path = WriteExampleCheckpoint(folder_, /*step=*/40);
  Coordinator::Options options = Options("latest");
  options.job.mutable_optimizer()->set_learning_rate(0.5);
  const absl::Status status = OpenJobFiles(/*takes_over=*/false, options);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--restore: " + path), HasSubstr("--learning_rate: expected "),
                    HasSubstr("got 0.5")));
}

TEST_F(JobFilesTest, ACheckpointBeyondTheLastStepIsRefused) {
  const std::string path = WriteExampleCheckpoint(folder_, /*step=*/40);
  Coordinator::Options options = Options("latest");
  options.job.mutable_training()->set_steps(39);
  EXPECT_EQ(OpenJobFiles(/*takes_over=*/false, options),
            absl::InvalidArgumentError("--steps: expected at least 40, the step of " + path +
                                       ", got 39"));
  options = Options("latest");
  options.job.mutable_training()->set_steps(40);
  EXPECT_TRUE(OpenJobFiles(/*takes_over=*/false, options).ok());
}

TEST_F(JobFilesTest, ACheckpointWithOtherBitsIsForAJobThatAllowsThem) {
  v1::CheckpointManifest manifest = ExampleManifest(/*step=*/40);
  manifest.set_has_other_bits(true);
  std::vector<ShardSnapshot> shards;
  for (uint32_t shard = 0; shard < kExampleShards; ++shard) {
    shards.push_back(ExampleShard(shard, /*step=*/40));
  }
  const std::string path = WriteCheckpoint(folder_, manifest, shards);
  Coordinator::Options options = Options("latest");
  EXPECT_TRUE(OpenJobFiles(/*takes_over=*/false, options).ok());
  options = Options("latest");
  options.job.mutable_membership()->set_allow_other_bits(false);
  EXPECT_EQ(OpenJobFiles(/*takes_over=*/false, options).message(),
            "--restore: expected a checkpoint with the bits of an undisturbed job, got " + path +
                ", before which a worker was lost under bsp; choose an earlier one, or add "
                "--allow_other_bits");
}

TEST_F(JobFilesTest, AFolderOfCheckpointsIsNoCheckpoint) {
  WriteExampleCheckpoint(folder_, /*step=*/40);
  EXPECT_EQ(ErrorWith(folder_), absl::StrCat("--restore: expected a checkpoint, got ", folder_,
                                             ", a folder of checkpoints; the newest of them is ",
                                             folder_, "/checkpoint-000001"));
  EXPECT_THAT(ErrorWith(folder_ + "/none"),
              AllOf(HasSubstr("got no folder"), HasSubstr("capstan checkpoint --list=DIR")));
}

TEST_F(JobFilesTest, ADamagedManifestIsNeitherRestoredNorPassedOver) {
  WriteExampleCheckpoint(folder_, /*step=*/40);
  const std::string newest = WriteExampleCheckpoint(folder_, /*step=*/80);
  FlipLastByte(newest + "/" + kManifestFile);
  EXPECT_THAT(ErrorWith("latest"), AllOf(HasSubstr("--restore: " + newest), HasSubstr("damaged")));
}

TEST_F(JobFilesTest, AFolderInUseOrInPlaceOfAFileIsRefused) {
  const auto other = OpenCheckpointFolder(folder_, /*token=*/1).value();
  EXPECT_THAT(ErrorWith("latest"), AllOf(HasSubstr("--checkpoint_dir: "), HasSubstr("other job")));
  Coordinator::Options options = Options("");
  options.job.mutable_checkpoint()->set_dir(folder_ + "/lock");
  EXPECT_THAT(std::string(OpenJobFiles(/*takes_over=*/false, options).message()),
              HasSubstr("--checkpoint_dir: " + folder_ + "/lock"));
}

}  // namespace
}  // namespace capstan
