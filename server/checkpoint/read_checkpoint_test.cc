#include "server/checkpoint/read_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/example_checkpoint.h"
#include "server/checkpoint/manifest.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kStep = 150;

std::vector<ShardSnapshot> ExampleShards() {
  return {ExampleShard(0, kStep), ExampleShard(1, kStep), ExampleShard(2, kStep)};
}

std::string WriteShards(const std::vector<ShardSnapshot>& shards) {
  return WriteCheckpoint(NewFolder(), ExampleManifest(kStep), shards);
}

absl::Status Read(const std::string& path) {
  return ReadAllShards(path, ReadManifest(path).value(),
                       [](const ShardSnapshot&) { return absl::OkStatus(); });
}

TEST(ReadCheckpointTest, EachSliceIsSeenOnceWithItsValues) {
  const std::string path = WriteShards(ExampleShards());
  std::map<SliceKey, std::vector<float>> slices;
  const absl::Status status =
      ReadAllShards(path, ReadManifest(path).value(), [&slices](const ShardSnapshot& shard) {
        for (const SliceSnapshot& slice : shard.slices) {
          std::vector<float>& values = slices[slice.key];
          EXPECT_TRUE(values.empty());
          values.resize(slice.values.size_bytes() / sizeof(float));
          slice.values.CopyTo(absl::MakeSpan(values));
        }
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  std::vector<float> all;
  for (const auto& [key, values] : slices) all.insert(all.end(), values.begin(), values.end());
  EXPECT_EQ(all, ExampleValues(kStep));
}

TEST(ReadCheckpointTest, AMissingSliceIsNamed) {
  std::vector<ShardSnapshot> shards = ExampleShards();
  shards[2].slices.clear();
  const std::string path = WriteShards(shards);
  EXPECT_EQ(Read(path), absl::InvalidArgumentError(absl::StrCat(
                            path,
                            ": expected all slices in its shards, got none for slice 2 of "
                            "table linear.weight")));
}

TEST(ReadCheckpointTest, ASliceInTwoShardsIsNamed) {
  std::vector<ShardSnapshot> shards = ExampleShards();
  shards[2].slices.push_back(shards[1].slices[1]);
  const std::string path = WriteShards(shards);
  EXPECT_EQ(Read(path), absl::InvalidArgumentError(absl::StrCat(
                            path,
                            "/shard-00002.safetensors: expected each slice once, got again "
                            "slice 0 of table linear.bias")));
}

TEST(ReadCheckpointTest, ASliceBeyondItsTableIsRefused) {
  std::vector<ShardSnapshot> shards = ExampleShards();
  shards[2].slices[0].key.slice = SliceIndex(3);
  EXPECT_THAT(std::string(Read(WriteShards(shards)).message()),
              HasSubstr("expected slices below 3, got slice 3 of table linear.weight"));
  shards = ExampleShards();
  shards[2].slices[0].key.table = TableId(1);
  EXPECT_THAT(std::string(Read(WriteShards(shards)).message()),
              HasSubstr("expected slices below 1, got slice 2 of table linear.bias"));
}

TEST(ReadCheckpointTest, ASliceOfAnotherSizeIsRefused) {
  std::vector<ShardSnapshot> shards = ExampleShards();
  shards[0].slices[0].values = shards[2].slices[0].values;
  shards[0].slices[0].optimizer_state.clear();
  EXPECT_THAT(std::string(Read(WriteShards(shards)).message()),
              HasSubstr("expected 1024 bytes, got 512 in slice 0 of table linear.weight"));
}

TEST(ReadCheckpointTest, ASliceWithoutTheOptimizersStateIsRefused) {
  std::vector<ShardSnapshot> shards = ExampleShards();
  const size_t arrays = shards[2].slices[0].optimizer_state.size();
  ASSERT_GT(arrays, 0u);
  shards[2].slices[0].optimizer_state.pop_back();
  EXPECT_THAT(std::string(Read(WriteShards(shards)).message()),
              HasSubstr(absl::StrCat("expected ", arrays, " arrays of the optimizer, got ",
                                     arrays - 1, " in slice 2 of table linear.weight")));
}

TEST(ReadCheckpointTest, EachTableHasTheStateOfItsOwnOptimizer) {
  v1::CheckpointManifest manifest = ExampleManifest(kStep);
  manifest.mutable_tables(1)->mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  std::vector<ShardSnapshot> shards = ExampleShards();
  SliceSnapshot& bias = shards[1].slices.back();
  ASSERT_EQ(bias.key.table, TableId(1));
  EXPECT_THAT(
      std::string(Read(WriteCheckpoint(NewFolder(), manifest, shards)).message()),
      HasSubstr("expected 2 arrays of the optimizer, got 1 in slice 0 of table linear.bias"));
  bias.optimizer_state.push_back(bias.optimizer_state.front());
  const absl::Status status = Read(WriteCheckpoint(NewFolder(), manifest, shards));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ReadCheckpointTest, ATableWhoseOptimizerTheProgramRunsHasUpTo16Arrays) {
  v1::CheckpointManifest manifest = ExampleManifest(kStep);
  manifest.mutable_tables(1)->set_replies_mean(true);
  std::vector<ShardSnapshot> shards = ExampleShards();
  SliceSnapshot& bias = shards[1].slices.back();
  ASSERT_EQ(bias.key.table, TableId(1));
  for (const size_t arrays : {0, 1, 16}) {
    bias.optimizer_state.assign(arrays, bias.values);
    const absl::Status status = Read(WriteCheckpoint(NewFolder(), manifest, shards));
    EXPECT_TRUE(status.ok()) << arrays << ": " << status;
  }
  bias.optimizer_state.assign(17, bias.values);
  const absl::Status status = Read(WriteCheckpoint(NewFolder(), manifest, shards));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/shard-00001.safetensors: block 2"));
}

TEST(ReadCheckpointTest, RowsAndTheirKeptPushesAreSeenAsTheyWere) {
  v1::CheckpointManifest manifest = ExampleManifest(kStep);
  std::vector<ShardSnapshot> shards = ExampleShards();
  AddExampleRows(manifest, shards);
  const std::string path = WriteCheckpoint(NewFolder(), manifest, shards);
  std::vector<uint64_t> keys;
  const absl::Status status =
      ReadAllShards(path, ReadManifest(path).value(), [&](const ShardSnapshot& shard) {
        const SliceSnapshot& read = shard.slices.back();
        const SliceSnapshot& written = shards[shard.shard.value()].slices.back();
        EXPECT_EQ(read.key, written.key);
        EXPECT_EQ(read.rows->keys, written.rows->keys);
        EXPECT_EQ(read.rows->values, written.rows->values);
        EXPECT_EQ(read.rows->state, written.rows->state);
        EXPECT_EQ(read.rows->last_step, written.rows->last_step);
        EXPECT_EQ(read.kept.size(), written.kept.size());
        for (const SliceSnapshot::KeptPush& push : read.kept) {
          EXPECT_EQ(*push.keys, *written.kept[0].keys);
          std::vector<float> gradient(2);
          push.gradient.CopyTo(absl::MakeSpan(gradient));
          EXPECT_EQ(gradient, (std::vector<float>{0.25f, -0.25f}));
        }
        keys.insert(keys.end(), read.rows->keys.begin(), read.rows->keys.end());
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(keys, ExampleKeys());
}

TEST(ReadCheckpointTest, RowsOfAnotherTableAreRefused) {
  v1::CheckpointManifest manifest = ExampleManifest(kStep);
  std::vector<ShardSnapshot> shards = ExampleShards();
  AddExampleRows(manifest, shards);
  v1::CheckpointManifest other = manifest;
  other.mutable_tables(2)->mutable_sparse()->set_dim(3);
  EXPECT_THAT(
      std::string(Read(WriteCheckpoint(NewFolder(), other, shards)).message()),
      HasSubstr("expected rows of 3 values and 3 floats of state, got 2 and 2 in slice 0 of table "
                "items"));
  other = manifest;
  other.mutable_tables(2)->clear_sparse();
  for (int i = 0; i < 3; ++i) shards[i].slices.back().key.slice = SliceIndex(0);
  other.mutable_tables(2)->add_shape(2);
  EXPECT_THAT(std::string(Read(WriteCheckpoint(NewFolder(), other, shards)).message()),
              HasSubstr("expected a dense table, got the other kind in slice 0 of table items"));
}

TEST(ReadCheckpointTest, ADamagedFileIsNamed) {
  const std::string path = WriteShards(ExampleShards());
  FlipLastByte(path + "/shard-00001.safetensors");
  const absl::Status status = Read(path);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(path + "/shard-00001.safetensors: "));
}

TEST(ReadCheckpointTest, TheErrorOfTheUserEndsTheReading) {
  const std::string path = WriteShards(ExampleShards());
  int calls = 0;
  EXPECT_EQ(ReadAllShards(path, ReadManifest(path).value(),
                          [&calls](const ShardSnapshot&) {
                            ++calls;
                            return absl::CancelledError("enough");
                          }),
            absl::CancelledError("enough"));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace capstan
