#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/model_file/model_file.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/evaluate_command.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

class ExportCommandTest : public testing::Test {
 protected:
  absl::Status Export(const std::string& checkpoint, bool with_optimizer_state = false) {
    out_.str("");
    return ExportCommand(checkpoint, model_, with_optimizer_state, out_);
  }
  // All values in the file, in its order.
  std::vector<float> ValuesInFile() {
    const auto model = ModelTables::Open(model_).value();
    std::vector<float> all;
    for (const Safetensors::Tensor& tensor : model->header().tensors) {
      std::vector<float> values(tensor.bytes / sizeof(float));
      EXPECT_TRUE(model->ReadValues(tensor.name, 0, absl::MakeSpan(values)).ok());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  static std::string HashOf(const std::vector<float>& values) {
    return absl::StrFormat("%016x", XXH3_64bits(values.data(), values.size() * sizeof(float)));
  }

  const std::string dir_ = NewFolder();
  const std::string model_ = NewFolder() + "/m.safetensors";
  std::ostringstream out_;
};

TEST_F(ExportCommandTest, TheFileHasTheCheckpointsTablesByNameAndShape) {
  const std::string checkpoint = WriteExampleCheckpoint(dir_, 150);
  const absl::Status status = Export(checkpoint);
  ASSERT_TRUE(status.ok()) << status;
  const std::string hash = HashOf(ExampleValues(150));
  EXPECT_EQ(out_.str(),
            absl::StrCat(model_, " has the parameters of job digits at step 150 of 400, ", "from ",
                         checkpoint, "\nparameters_xxh3 ", hash, "\n"));
  const auto model = ModelTables::Open(model_).value();
  EXPECT_TRUE(model->CheckTables(ExampleManifest(150).tables()).ok());
  EXPECT_THAT(model->header().metadata,
              ElementsAre(Pair("format", "capstan"), Pair("job", "digits"),
                          Pair("parameters_xxh3", hash), Pair("step", "150")));
  EXPECT_EQ(ValuesInFile(), ExampleValues(150));
  EXPECT_FALSE(std::filesystem::exists(UnfinishedModelPath(model_)));
}

TEST_F(ExportCommandTest, TheFileHasTheRowsOfSparseTables) {
  v1::CheckpointManifest manifest = ExampleManifest(150);
  std::vector<ShardSnapshot> shards = {ExampleShard(0, 150), ExampleShard(1, 150),
                                       ExampleShard(2, 150)};
  AddExampleRows(manifest, shards);
  const absl::Status status = Export(WriteCheckpoint(dir_, manifest, shards));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), HasSubstr("\ntable items has 16 rows\nparameters_xxh3 " +
                                    HashOf(ExampleValues(150)) + "\n"));
  const OpenFile file = OpenFile::Open(model_, O_RDONLY).value();
  const Safetensors header = ReadSafetensorsHeader(file).value();
  std::map<std::string, const Safetensors::Tensor*> tensors;
  for (const Safetensors::Tensor& tensor : header.tensors) tensors[tensor.name] = &tensor;
  ASSERT_EQ(tensors.size(), 5u);
  const Safetensors::Tensor& keys = *tensors.at("items.keys");
  EXPECT_EQ(keys.dtype, "I64");
  EXPECT_EQ(keys.offset % 8, 0u) << "some libraries read no other";
  std::vector<uint64_t> read_keys(keys.bytes / 8);
  ASSERT_TRUE(file.ReadAt(keys.offset, read_keys.data(), keys.bytes).ok());
  EXPECT_EQ(read_keys, ExampleKeys());
  std::vector<float> values, state;
  for (size_t k = 0; k < 16; ++k) {
    values.insert(values.end(), {static_cast<float>(k), static_cast<float>(k) + 0.5f});
    state.insert(state.end(), {2 * static_cast<float>(k), 2 * static_cast<float>(k) + 0.5f});
  }
  for (const auto& [name, expected] : {std::pair("items.values", values), {"items.state", state}}) {
    const Safetensors::Tensor& tensor = *tensors.at(name);
    EXPECT_EQ(tensor.shape, (std::vector<uint64_t>{16, 2}));
    std::vector<float> read(tensor.bytes / 4);
    ASSERT_TRUE(file.ReadAt(tensor.offset, read.data(), tensor.bytes).ok());
    EXPECT_EQ(read, expected) << name;
  }
}

TEST_F(ExportCommandTest, TheOptimizersStateIsBesideTheParametersIfItIsWanted) {
  v1::CheckpointManifest manifest = ExampleManifest(150);
  std::vector<ShardSnapshot> shards = {ExampleShard(0, 150), ExampleShard(1, 150),
                                       ExampleShard(2, 150)};
  AddExampleRows(manifest, shards);
  const absl::Status status =
      Export(WriteCheckpoint(dir_, manifest, shards), /*with_optimizer_state=*/true);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("has the parameters and the optimizer's state of job"),
                                HasSubstr("\nparameters_xxh3 " + HashOf(ExampleValues(150)))));
  const auto model = ModelTables::Open(model_).value();
  EXPECT_TRUE(model->CheckTables(manifest.tables()).ok());
  std::map<std::string, std::vector<uint64_t>> shapes;
  for (const Safetensors::Tensor& tensor : model->header().tensors) {
    shapes[tensor.name] = tensor.shape;
    EXPECT_EQ(tensor.dtype, tensor.name == "items.keys" ? "I64" : "F32") << tensor.name;
  }
  EXPECT_EQ(shapes, (std::map<std::string, std::vector<uint64_t>>{
                        {"items.keys", {16}},
                        {"items.state", {16, 2}},
                        {"items.values", {16, 2}},
                        {"linear.bias", {10}},
                        {"linear.weight", {64, 10}},
                        {"optimizer.linear.bias.momentum_buffer", {10}},
                        {"optimizer.linear.bias.step", {}},
                        {"optimizer.linear.weight.momentum_buffer", {64, 10}},
                        {"optimizer.linear.weight.step", {}}}));
  std::vector<float> momentum(640), step(1);
  ASSERT_TRUE(
      model->ReadValues("optimizer.linear.weight.momentum_buffer", 0, absl::MakeSpan(momentum))
          .ok());
  ASSERT_TRUE(model->ReadValues("optimizer.linear.weight.step", 0, absl::MakeSpan(step)).ok());
  EXPECT_EQ(momentum, std::vector<float>(640, 0.5f));
  EXPECT_EQ(step[0], 150.0f);
}

TEST_F(ExportCommandTest, TheStateIsRefusedWhereItsNamesWouldNotBeItsOwn) {
  v1::CheckpointManifest manifest = ExampleManifest(150);
  const std::vector<ShardSnapshot> shards = {ExampleShard(0, 150), ExampleShard(1, 150),
                                             ExampleShard(2, 150)};
  manifest.mutable_tables(1)->set_name("optimizer.bias");
  const std::string checkpoint = WriteCheckpoint(dir_, manifest, shards);
  EXPECT_TRUE(Export(checkpoint).ok());
  const absl::Status status = Export(checkpoint, /*with_optimizer_state=*/true);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--optimizer_state: "), HasSubstr("got optimizer.bias; ")));
}

TEST_F(ExportCommandTest, TensorsOfOneNameAreRefused) {
  v1::CheckpointManifest manifest = ExampleManifest(150);
  std::vector<ShardSnapshot> shards = {ExampleShard(0, 150), ExampleShard(1, 150),
                                       ExampleShard(2, 150)};
  AddExampleRows(manifest, shards);
  manifest.mutable_tables(1)->set_name("items.keys");
  EXPECT_THAT(std::string(Export(WriteCheckpoint(dir_, manifest, shards)).message()),
              HasSubstr("got two called items.keys"));
}

TEST_F(ExportCommandTest, TheModelCanBeEvaluated) {
  ASSERT_TRUE(Export(WriteExampleCheckpoint(dir_, 150)).ok());
  std::ostringstream evaluated;
  const absl::Status status =
      EvaluateCommand(model_, /*job_file=*/"", {"--model=logistic_regression"}, evaluated);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(evaluated.str(),
              HasSubstr(absl::StrCat("parameters_xxh3 ", HashOf(ExampleValues(150)), "\n")));
}

TEST_F(ExportCommandTest, OfAFolderOfCheckpointsTheNewestCompleteOneIsTaken) {
  for (const int64_t step : {50, 100}) WriteExampleCheckpoint(dir_, step);
  ASSERT_TRUE(OpenCheckpointFolder(dir_, /*token=*/1).value()->Create().ok());
  ASSERT_TRUE(Export(dir_).ok());
  EXPECT_EQ(ValuesInFile(), ExampleValues(100));
  EXPECT_THAT(out_.str(), HasSubstr("from " + dir_ + "/checkpoint-000002\n"));
}

TEST_F(ExportCommandTest, CheckpointsThatAJobRemovesMeanwhileAreNoErrors) {
  WriteExampleCheckpoint(dir_, /*step=*/1);
  std::atomic<bool> has_ended = false;
  std::thread job([&] {
    for (int64_t step = 2; !has_ended; ++step) {
      WriteExampleCheckpoint(dir_, 1 + step % 300);
      EXPECT_TRUE(OpenCheckpointFolder(dir_, /*token=*/1).value()->RemoveOld(/*keep=*/1).ok());
    }
  });
  for (int i = 0; i < 40; ++i) {
    const absl::Status exported = Export(dir_);
    EXPECT_TRUE(exported.ok()) << exported;
    std::ostringstream out;
    const absl::Status verified = VerifyCheckpointsCommand(dir_, out);
    EXPECT_TRUE(verified.ok()) << verified;
    EXPECT_TRUE(ListCheckpointsCommand(dir_, out).ok());
    EXPECT_THAT(out.str(), Not(HasSubstr("cannot be used")));
  }
  has_ended = true;
  job.join();
}

TEST_F(ExportCommandTest, PartsOfDifferentMomentsAreTold) {
  v1::CheckpointManifest manifest = ExampleManifest(150);
  ASSERT_TRUE(Export(WriteExampleCheckpoint(dir_, 150)).ok());
  EXPECT_THAT(out_.str(), Not(HasSubstr("moments")));
  manifest.set_end_step(158);
  ASSERT_TRUE(
      Export(WriteCheckpoint(dir_, manifest,
                             {ExampleShard(0, 150), ExampleShard(1, 157), ExampleShard(2, 150)}))
          .ok());
  EXPECT_THAT(out_.str(), HasSubstr("\nits parts are of different moments: some have updates of "
                                    "steps up to 157\n"));
}

TEST_F(ExportCommandTest, ADamagedOrIncompleteCheckpointLeavesTheFileAsItWas) {
  std::ofstream(model_) << "before";
  const std::string damaged = WriteExampleCheckpoint(dir_, 150);
  FlipLastByte(damaged + "/shard-00002.safetensors");
  const absl::Status status = Export(damaged);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(damaged + "/shard-00002.safetensors: "));
  const std::string incomplete = WriteCheckpoint(
      dir_, ExampleManifest(150),
      {ExampleShard(0, 150), ExampleShard(1, 150), ShardSnapshot{ShardId(2), {}, {}}});
  EXPECT_THAT(std::string(Export(incomplete).message()),
              HasSubstr("got none for slice 2 of table linear.weight"));
  EXPECT_TRUE(absl::IsNotFound(Export(dir_ + "/none")));
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(std::filesystem::file_size(model_), 6u);
  EXPECT_FALSE(std::filesystem::exists(UnfinishedModelPath(model_)));
}

TEST_F(ExportCommandTest, AFileThatAJobIsWritingIsLeftToTheJob) {
  const auto job = CreateModelFile(model_, /*token=*/1).value();
  EXPECT_TRUE(absl::IsAborted(Export(WriteExampleCheckpoint(dir_, 150))));
  EXPECT_TRUE(std::filesystem::exists(UnfinishedModelPath(model_)));
}

}  // namespace
}  // namespace capstan
