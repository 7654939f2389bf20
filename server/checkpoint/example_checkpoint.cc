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
