#include "server/checkpoint/example_checkpoint.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/model_file/model_file.h"
#include "common/routing/key_shard.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/shard_storage.h"

namespace capstan {
namespace {

constexpr uint64_t kToken = 42;
constexpr uint64_t kSliceElements = 256;
constexpr uint64_t kSizes[] = {640, 10};  // of the tables

Payload PayloadOf(std::vector<float> values) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return Payload(absl::MakeConstSpan(*owner), owner);
}

// `values` are those of the slice's table, from its first element on.
SliceSnapshot SliceOf(SliceKey key, absl::Span<const float> values, int64_t step) {
  const absl::Span<const float> part =
      values.subspan(key.slice.value() * kSliceElements, kSliceElements);
  SliceSnapshot slice;
  slice.key = key;
  slice.version = static_cast<uint64_t>(step);
  slice.optimizer_steps = slice.version;
  slice.min_step = slice.largest_step = Step(step);
  slice.schedule = {{Step(0), ConsistencyMode::kBsp}};
  for (const uint32_t worker : {0, 1})
    slice.workers.push_back({WorkerId(worker), Step(step), true});
  slice.values = PayloadOf({part.begin(), part.end()});
  slice.optimizer_state = {PayloadOf(std::vector<float>(part.size(), 0.5f))};
  return slice;
}

}  // namespace

v1::JobSpec ExampleJob() {
  v1::JobSpec job;
  job.set_name("digits");
  job.mutable_cluster()->set_shard_count(kExampleShards);
  job.mutable_model()->set_type(v1::ModelSpec::LOGISTIC_REGRESSION);
  job.mutable_scheduler()->set_slice_bytes(kSliceElements * sizeof(float));
  return job;
}

std::string NewFolder() {
  std::string folder = testing::TempDir() + "/checkpoints-XXXXXX";
  return mkdtemp(folder.data());
}

v1::CheckpointManifest ExampleManifest(int64_t step) {
  v1::CheckpointManifest manifest;
  manifest.set_step(step);
  manifest.set_end_step(step);
  manifest.set_steps_total(400);
  *manifest.mutable_job() = ExampleJob();
  v1::TableSpec* const weight = manifest.add_tables();
  weight->set_name("linear.weight");
  for (const uint64_t size : {64, 10}) weight->add_shape(size);
  v1::TableSpec* const bias = manifest.add_tables();
  bias->set_name("linear.bias");
  bias->add_shape(10);
  manifest.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  for (int worker = 0; worker < 2; ++worker) manifest.add_workers()->set_first_step(step);
  return manifest;
}

std::vector<float> ExampleValues(int64_t step) {
  Random random(static_cast<uint64_t>(step));
  std::vector<float> values(kSizes[0] + kSizes[1]);
  for (float& value : values) value = random.Normal();
  return values;
}

ShardSnapshot ExampleShard(uint32_t shard, int64_t step) {
  ShardSnapshot snapshot;
  snapshot.shard = ShardId(shard);
  const std::vector<float> values = ExampleValues(step);
  absl::Span<const float> rest = values;
  for (const uint32_t table : {0, 1}) {
    for (uint32_t slice = 0; slice * kSliceElements < kSizes[table]; ++slice) {
      if ((table + slice) % kExampleShards != shard) continue;
      snapshot.slices.push_back(
          SliceOf({TableId(table), SliceIndex(slice)}, rest.subspan(0, kSizes[table]), step));
    }
    rest.remove_prefix(kSizes[table]);
  }
  return snapshot;
}

std::vector<uint64_t> ExampleKeys() {
  std::vector<uint64_t> keys;
  for (uint32_t shard = 0; shard < kExampleShards; ++shard) {
    for (const uint64_t begin : {uint64_t{0}, uint64_t{1} << 63}) {
      for (uint64_t key = begin; key < begin + 8; ++key) {
        if (ShardOfKey(key, kExampleShards) == ShardId(shard)) keys.push_back(key);
      }
    }
  }
  return keys;
}

void AddExampleRows(v1::CheckpointManifest& manifest, std::vector<ShardSnapshot>& shards) {
  v1::TableSpec& table = *manifest.add_tables();
  table.set_name("items");
  table.mutable_sparse()->set_dim(2);
  table.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAGRAD);
  const TableId id(static_cast<uint32_t>(manifest.tables_size()) - 1);
  std::vector<std::shared_ptr<SparseRowsSnapshot>> rows;
  for (ShardSnapshot& shard : shards) {
    rows.push_back(std::make_shared<SparseRowsSnapshot>());
    rows.back()->dim = rows.back()->state_floats = 2;
    SliceSnapshot& slice = shard.slices.emplace_back(shard.slices.front());
    slice.key = RowsIn(shard.shard, id);
    slice.values = {};
    slice.optimizer_state.clear();
    slice.rows = rows.back();
  }
  float k = 0;
  for (const uint64_t key : ExampleKeys()) {
    SparseRowsSnapshot& of_shard = *rows[ShardOfKey(key, kExampleShards).value()];
    of_shard.keys.push_back(key);
    of_shard.values.insert(of_shard.values.end(), {k, k + 0.5f});
    of_shard.state.insert(of_shard.state.end(), {2 * k, 2 * k + 0.5f});
    ++k;
  }
  SliceSnapshot::KeptPush& push = shards[0].slices.back().kept.emplace_back();
  push.step = Step(manifest.step());
  push.worker = WorkerId(1);
  push.keys = std::make_shared<const std::vector<uint64_t>>(1, rows[0]->keys[0]);
  push.gradient = PayloadOf({0.25f, -0.25f});
}

std::string WriteCheckpoint(const std::string& dir, v1::CheckpointManifest manifest,
                            const std::vector<ShardSnapshot>& shards) {
  std::vector<std::string> tables;
  for (const v1::TableSpec& table : manifest.tables()) tables.push_back(table.name());
  const auto folder = OpenCheckpointFolder(dir, kToken).value();
  const auto storage = OpenShardFolder(dir, kToken, tables).value();
  const std::string name = folder->Create().value();
  std::vector<v1::ShardFile> files;
  for (const ShardSnapshot& shard : shards) {
    files.push_back(storage->Write(name, shard).value());
    *manifest.add_files() = files.back();
  }
  CHECK(storage->Finish(name, files).ok());
  const absl::Status published = folder->Publish(name, manifest);
  CHECK(published.ok()) << published;
  return folder->PathOf(name);
}

std::string WriteExampleCheckpoint(const std::string& dir, int64_t step) {
  std::vector<ShardSnapshot> shards;
  for (uint32_t shard = 0; shard < kExampleShards; ++shard) {
    shards.push_back(ExampleShard(shard, step));
  }
  return WriteCheckpoint(dir, ExampleManifest(step), shards);
}

void FlipLastByte(const std::string& path) {
  const OpenFile file = OpenFile::Open(path, O_RDWR).value();
  const uint64_t last = file.SizeBytes().value() - 1;
  uint8_t byte = 0;
  CHECK(file.ReadAt(last, &byte, 1).ok());
  byte ^= 1;
  CHECK(file.WriteAt(last, &byte, 1).ok());
}

}  // namespace capstan
