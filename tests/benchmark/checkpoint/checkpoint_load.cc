#include "tests/benchmark/checkpoint/checkpoint_load.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/one_shot.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/tensor/slicing.h"
#include "server/checkpoint/checkpoint_writer.h"

namespace capstan {
namespace {

constexpr uint64_t kToken = 7;
constexpr char kTable[] = "values";
constexpr uint64_t kSliceBytes = 1 << 20;  // a job's default

BenchmarkJob JobOf(uint64_t table_bytes) {
  BenchmarkJob job;
  job.table_bytes = table_bytes;
  job.slice_bytes = kSliceBytes;
  job.optimizer = "adam";
  return job;
}

void FillAtRandom(uint64_t seed, absl::Span<float> values) {
  Random random(seed);
  for (float& value : values) value = random.UniformFloat() - 0.5f;
}

// Takes the snapshots of all shards at once.
void Cut(ShardHost& host, const std::function<void(ShardSnapshot)>& on_cut) {
  host.CutAt(host.HoldBack(), on_cut);
}

uint64_t HashOf(ShardHost& host) {
  uint64_t hash = 0;
  const auto add = [&hash](const Payload& array) {
    for (const Payload::Fragment bytes : array.fragments()) {
      hash = XXH3_64bits_withSeed(bytes.data(), bytes.size(), hash);
    }
  };
  Cut(host, [&add](const ShardSnapshot& shard) {
    for (const SliceSnapshot& slice : shard.slices) {
      add(slice.values);
      for (const Payload& array : slice.optimizer_state) add(array);
    }
  });
  return hash;
}

// Pushes a random gradient, so that the optimizer has a state.
absl::Status PushAll(const BenchmarkJob& job, ShardHost& host) {
  const Slicing slicing(job.table_bytes / sizeof(float), job.slice_bytes);
  absl::Status status;
  for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
    const auto gradient =
        std::make_shared<std::vector<float>>(slicing.Range(SliceIndex(slice)).size);
    FillAtRandom(/*seed=*/slice, absl::MakeSpan(*gradient));
    ExchangeRequest request = job.RequestOf(/*worker=*/0, slice);
    request.purpose = DenseStep{StepPush{Step(0), Gradient{Payload(*gradient, gradient)}}};
    host.Exchange(
        std::move(request), [] {},
        [&status](const ExchangeReply& reply) { status.Update(reply.status); });
  }
  return status;
}

}  // namespace

CheckpointLoad::CheckpointLoad(const Options& options)
    : options_(options), job_(JobOf(options.table_bytes)) {}

absl::StatusOr<std::unique_ptr<CheckpointLoad>> CheckpointLoad::Create(const Options& options) {
  std::unique_ptr<CheckpointLoad> load(new CheckpointLoad(options));
  ASSIGN_OR_RETURN(load->folder_, OpenCheckpointFolder(options.dir, kToken));
  ASSIGN_OR_RETURN(load->shards_, OpenShardFolder(options.dir, kToken, {kTable}));
  RETURN_IF_ERROR(load->MakeHost());
  return load;
}

absl::Status CheckpointLoad::MakeHost() {
  ShardHost::Source source;
  source.initial = [](TableId, uint64_t offset, SliceState::Memory& memory) {
    FillAtRandom(/*seed=*/~offset, memory.values.span());
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(host_, job_.MakeHost(/*server=*/0, source));
  RETURN_IF_ERROR(PushAll(job_, *host_));
  host_hash_ = HashOf(*host_);
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> CheckpointLoad::Write() {
  const absl::Time begin = options_.clock->Now();
  ASSIGN_OR_RETURN(const std::string name, folder_->Create());
  ASSIGN_OR_RETURN(const v1::CheckpointPart part, WriteShards(name));
  manifest_ = ManifestOf(part);
  RETURN_IF_ERROR(folder_->Publish(name, manifest_));
  const absl::Duration time = options_.clock->Now() - begin;
  path_ = folder_->PathOf(name);
  RETURN_IF_ERROR(folder_->RemoveOld(/*keep=*/1));
  return time;
}

absl::StatusOr<v1::CheckpointPart> CheckpointLoad::WriteShards(const std::string& name) {
  OneShot<bool> has_ended(options_.clock);
  CheckpointWriter::Options options;
  options.clock = options_.clock;
  options.storage = shards_.get();
  options.on_end = [&has_ended] { has_ended.Set(true); };
  CheckpointWriter writer(std::move(options));
  writer.Begin(++number_, name, host_->filled_shards());
  Cut(*host_, [&](ShardSnapshot shard) {
    if (!shard.slices.empty()) writer.Add(number_, std::move(shard));
  });
  has_ended.Wait();
  v1::CheckpointPart part = writer.part();
  if (part.error().empty()) return part;
  return absl::UnavailableError(part.error());
}

v1::CheckpointManifest CheckpointLoad::ManifestOf(const v1::CheckpointPart& part) const {
  v1::CheckpointManifest manifest;
  manifest.set_step(1);
  manifest.set_end_step(1);
  manifest.set_steps_total(2);
  manifest.mutable_job()->mutable_cluster()->set_num_workers(1);
  manifest.mutable_job()->mutable_cluster()->set_shard_count(job_.shard_count);
  manifest.mutable_job()->mutable_scheduler()->set_slice_bytes(job_.slice_bytes);
  v1::TableSpec& table = *manifest.add_tables();
  table.set_name(kTable);
  table.add_shape(job_.table_bytes / sizeof(float));
  manifest.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  manifest.add_workers()->set_first_step(1);
  *manifest.mutable_files() = part.files();
  std::sort(manifest.mutable_files()->begin(), manifest.mutable_files()->end(),
            [](const v1::ShardFile& a, const v1::ShardFile& b) { return a.shard() < b.shard(); });
  return manifest;
}

absl::StatusOr<absl::Duration> CheckpointLoad::Read() {
  const absl::Time begin = options_.clock->Now();
  ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, shards_->ReadManifest(path_));
  ShardHost::Source source;
  source.restored = [&](ShardId shard) -> absl::StatusOr<ShardSnapshot> {
    for (const v1::ShardFile& file : manifest.files()) {
      if (ShardId(file.shard()) == shard) return shards_->Read(path_, file);
    }
    return absl::InternalError(absl::StrCat("no file of shard ", shard.value()));
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, job_.MakeHost(/*server=*/0, source));
  const absl::Duration time = options_.clock->Now() - begin;
  if (HashOf(*host) == host_hash_) return time;
  return absl::InternalError("the restored shards differ from the ones that were written");
}

uint64_t CheckpointLoad::bytes() const {
  uint64_t bytes = 0;
  for (const v1::ShardFile& file : manifest_.files()) bytes += file.bytes();
  return bytes;
}

}  // namespace capstan
