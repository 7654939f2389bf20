#include "server/checkpoint/read_checkpoint.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "common/tensor/slicing.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_storage.h"
#include "server/optimizer/optimizer.h"
#include "server/optimizer/table_optimizers.h"

namespace capstan {
namespace {

// Which slices of a job have been read.
class ReadSlices {
 public:
  // INVALID_ARGUMENT if an optimizer cannot be made.
  static absl::StatusOr<ReadSlices> Create(const v1::CheckpointManifest& manifest) {
    ReadSlices slices;
    for (const v1::TableSpec& table : manifest.tables()) {
      ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                       MakeOptimizer(OptimizerOf(manifest.job(), table)));
      slices.names_.push_back(table.name());
      slices.slicings_.emplace_back(ElementCount(table), SliceBytes(manifest.job().scheduler()));
      slices.state_counts_.push_back(static_cast<size_t>(optimizer->state_count()));
    }
    return slices;
  }

  absl::Span<const std::string> table_names() const { return names_; }

  // The slice's table is one of the job's.
  absl::Status Add(const SliceSnapshot& slice) {
    const Slicing& slicing = slicings_[slice.key.table.value()];
    if (slice.key.slice.value() >= slicing.slice_count()) {
      return Unexpected(absl::StrCat("slices below ", slicing.slice_count(), ", got"), slice.key);
    }
    const uint64_t bytes = slicing.Range(slice.key.slice).size * sizeof(float);
    if (slice.values.size_bytes() != bytes) {
      return Unexpected(absl::StrCat(bytes, " bytes, got ", slice.values.size_bytes(), " in"),
                        slice.key);
    }
    const size_t state_count = state_counts_[slice.key.table.value()];
    if (slice.optimizer_state.size() != state_count) {
      return Unexpected(absl::StrCat(state_count, " arrays of the optimizer, got ",
                                     slice.optimizer_state.size(), " in"),
                        slice.key);
    }
    if (keys_.insert(slice.key).second) return absl::OkStatus();
    return Unexpected("each slice once, got again", slice.key);
  }

  // INVALID_ARGUMENT, naming the first slice that has not come.
  absl::Status CheckAllHaveCome() const {
    for (uint32_t table = 0; table < slicings_.size(); ++table) {
      for (uint32_t slice = 0; slice < slicings_[table].slice_count(); ++slice) {
        const SliceKey key{TableId(table), SliceIndex(slice)};
        if (!keys_.contains(key)) return Unexpected("all slices in its shards, got none for", key);
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Unexpected(absl::string_view expected, SliceKey key) const {
    return absl::InvalidArgumentError(absl::StrCat("expected ", expected, " slice ",
                                                   key.slice.value(), " of table ",
                                                   names_[key.table.value()]));
  }

  ReadSlices() = default;

  // For each table:
  std::vector<std::string> names_;
  std::vector<Slicing> slicings_;
  std::vector<size_t> state_counts_;  // the optimizer's arrays for each slice
  absl::flat_hash_set<SliceKey> keys_;
};

}  // namespace

absl::Status ReadAllShards(const std::string& path, const v1::CheckpointManifest& manifest,
                           absl::FunctionRef<absl::Status(const ShardSnapshot&)> use) {
  absl::StatusOr<ReadSlices> slices = ReadSlices::Create(manifest);
  RETURN_IF_ERROR(Annotate(slices.status(), path));
  for (const v1::ShardFile& file : manifest.files()) {
    ASSIGN_OR_RETURN(const ShardSnapshot shard,
                     ReadVerifiedShard(path, file, slices->table_names()));
    for (const SliceSnapshot& slice : shard.slices) {
      RETURN_IF_ERROR(
          Annotate(slices->Add(slice), absl::StrCat(path, "/", ShardFileName(file.shard()))));
    }
    RETURN_IF_ERROR(use(shard));
  }
  return Annotate(slices->CheckAllHaveCome(), path);
}

}  // namespace capstan
