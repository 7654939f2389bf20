#include "server/checkpoint/shard_storage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/example_checkpoint.h"
#include "server/checkpoint/shard_blocks.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kToken = 7;
constexpr int64_t kStep = 150;
const std::vector<std::string> kTables = {"linear.weight", "linear.bias"};

class ShardStorageTest : public testing::Test {
 protected:
  ShardStorageTest()
      : dir_(NewFolder()),
        folder_(OpenCheckpointFolder(dir_, kToken).value()),
        name_(folder_->Create().value()),
        path_(folder_->PathOf(name_)),
        storage_(OpenShardFolder(dir_, kToken, kTables).value()) {}

  std::string FileOf(uint32_t shard) {
    return absl::StrCat(path_, "/shard-0000", shard, ".safetensors");
  }
  v1::ShardFile WriteFinished(uint32_t shard) {
    const v1::ShardFile file = storage_->Write(name_, ExampleShard(shard, kStep)).value();
    EXPECT_TRUE(storage_->Finish(name_, {file}).ok());
    return file;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  static std::vector<float> FloatsOf(const Payload& payload) {
    std::vector<float> floats(payload.size_bytes() / sizeof(float));
    payload.CopyTo(absl::MakeSpan(floats));
    return floats;
  }
  // The error of a file that does not verify: the same from each function.
  std::string ErrorOf(const v1::ShardFile& file) {
    const absl::Status verified = VerifyShardFile(path_, file);
    EXPECT_EQ(storage_->Read(path_, file).status(), verified);
    EXPECT_TRUE(absl::IsDataLoss(verified)) << verified;
    return std::string(verified.message());
  }

  const std::string dir_;
  const std::unique_ptr<CheckpointStorage> folder_;
  const std::string name_;
  const std::string path_;
  const std::unique_ptr<ShardStorage> storage_;
};

TEST_F(ShardStorageTest, WhatIsWrittenAndFinishedIsReadBackEqual) {
  const ShardSnapshot shard = ExampleShard(1, kStep);
  const v1::ShardFile file = WriteFinished(1);
  EXPECT_TRUE(VerifyShardFile(path_, file).ok());
  const auto read = storage_->Read(path_, file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(EncodeShardBlocks(*read), EncodeShardBlocks(shard));
  ASSERT_EQ(read->slices.size(), 2u) << "the second slice of the weight, and the bias";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(FloatsOf(read->slices[i].values), FloatsOf(shard.slices[i].values));
    EXPECT_EQ(FloatsOf(read->slices[i].optimizer_state[0]),
              FloatsOf(shard.slices[i].optimizer_state[0]));
  }
}

TEST_F(ShardStorageTest, AFileHasItsNameOnceItIsFinished) {
  const v1::ShardFile file = storage_->Write(name_, ExampleShard(2, kStep)).value();
  EXPECT_FALSE(fs::exists(FileOf(2)));
  EXPECT_TRUE(fs::exists(FileOf(2) + ".unfinished"));
  ASSERT_TRUE(storage_->Finish(name_, {file}).ok());
  EXPECT_FALSE(fs::exists(FileOf(2) + ".unfinished"));
  const std::string bytes = Contents(FileOf(2));
  EXPECT_EQ(file.shard(), 2u);
  EXPECT_EQ(file.bytes(), bytes.size());
  EXPECT_EQ(file.xxh3(), XXH3_64bits(bytes.data(), bytes.size()));
}

TEST_F(ShardStorageTest, WhatAnEarlierAttemptHasLeftIsReplaced) {
  std::ofstream(FileOf(0) + ".unfinished") << std::string(100'000, 'x');
  EXPECT_TRUE(VerifyShardFile(path_, WriteFinished(0)).ok());
}

TEST_F(ShardStorageTest, ALinkIsNotWrittenThrough) {
  std::ofstream(dir_ + "/precious") << "x";
  fs::create_symlink("../precious", FileOf(0) + ".unfinished");
  EXPECT_FALSE(storage_->Write(name_, ExampleShard(0, kStep)).ok());
  EXPECT_EQ(Contents(dir_ + "/precious"), "x");
}

TEST_F(ShardStorageTest, AFileOfAnotherSizeIsDamaged) {
  const v1::ShardFile file = WriteFinished(0);
  const std::string got =
      absl::StrCat(", as the manifest says, got ", file.bytes() + 1, " bytes; ");
  fs::resize_file(FileOf(0), file.bytes() + 1);
  EXPECT_THAT(
      ErrorOf(file),
      AllOf(StartsWith(absl::StrCat(FileOf(0), ": expected ", file.bytes(), " bytes with ")),
            HasSubstr(got), HasSubstr("use another checkpoint")));
  fs::resize_file(FileOf(0), file.bytes() - 1);
  EXPECT_THAT(ErrorOf(file), HasSubstr("the file is damaged"));
  fs::resize_file(FileOf(0), 0);
  EXPECT_THAT(ErrorOf(file), HasSubstr("got 0 bytes; "));
}

TEST_F(ShardStorageTest, AFlippedByteAnywhereIsDamage) {
  const v1::ShardFile file = WriteFinished(0);
  const std::string whole = Contents(FileOf(0));
  for (const size_t place : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    std::string flipped = whole;
    flipped[place] = static_cast<char>(flipped[place] ^ 1);
    std::ofstream(FileOf(0), std::ios::binary) << flipped;
    EXPECT_THAT(
        ErrorOf(file),
        HasSubstr(absl::StrCat(
            " with ", absl::Hex(XXH3_64bits(flipped.data(), flipped.size()), absl::kZeroPad16),
            "; ")));
  }
}

TEST_F(ShardStorageTest, TheFileOfAnotherShardIsRefused) {
  v1::ShardFile file = WriteFinished(0);
  fs::rename(FileOf(0), FileOf(1));
  EXPECT_TRUE(absl::IsNotFound(VerifyShardFile(path_, file)));
  file.set_shard(1);
  EXPECT_TRUE(VerifyShardFile(path_, file).ok());
  const absl::Status status = storage_->Read(path_, file).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), absl::StrCat(FileOf(1), ": expected shard 1, got shard 0"));
}

TEST_F(ShardStorageTest, WhatWasNotWrittenCannotBeFinished) {
  v1::ShardFile file;
  const absl::Status status = storage_->Finish(name_, {file});
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(FileOf(0) + ".unfinished"));
}

// Of this process, and the folder that lists them.
auto OpenFiles() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

TEST_F(ShardStorageTest, ManyShardsNeedFewOpenFiles) {
  const auto before = OpenFiles();
  std::vector<v1::ShardFile> files;
  for (int i = 0; i < 100; ++i) {
    ShardSnapshot shard = ExampleShard(0, kStep);
    shard.shard = ShardId(static_cast<uint32_t>(i));
    files.push_back(storage_->Write(name_, shard).value());
    EXPECT_LE(OpenFiles(), before + 64) << "at most 64 shards may wait for the disk";
  }
  ASSERT_TRUE(storage_->Finish(name_, files).ok());
  EXPECT_EQ(OpenFiles(), before);
  for (const v1::ShardFile& file : files) EXPECT_TRUE(VerifyShardFile(path_, file).ok());
}

TEST_F(ShardStorageTest, AFailedCheckpointLeavesNoOpenFile) {
  const auto before = OpenFiles();
  ASSERT_TRUE(storage_->Write(name_, ExampleShard(0, kStep)).ok());
  EXPECT_GT(OpenFiles(), before);
  fs::remove_all(path_);
  EXPECT_FALSE(storage_->Write(name_, ExampleShard(1, kStep)).ok());
  EXPECT_EQ(OpenFiles(), before);
}

TEST_F(ShardStorageTest, AnotherFolderThanTheCoordinatorsIsRefused) {
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenShardFolder(dir_, 8, kTables).status()));
  const v1::ShardFile file = WriteFinished(0);
  const auto reader = OpenShardFolder("", 0, kTables);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Read(path_, file).ok());
}

// A server of an earlier attempt does not bring its folder back.
TEST_F(ShardStorageTest, ACheckpointThatWasGivenUpIsNotWrittenOn) {
  ASSERT_TRUE(folder_->Create().ok());
  EXPECT_TRUE(absl::IsNotFound(storage_->Write(name_, ExampleShard(0, kStep)).status()));
}

}  // namespace
}  // namespace capstan
