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
#include "common/optimizer/optimizer.h"
#include "common/routing/job_view.h"
#include "common/routing/key_shard.h"
#include "common/tensor/slicing.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_storage.h"
#include "server/optimizer/table_optimizers.h"
#include "server/sparse/row_optimizer.h"

namespace capstan {
namespace {

// Which slices of a job have been read.
class ReadSlices {
 public:
  // INVALID_ARGUMENT if an optimizer cannot be made.
  static absl::StatusOr<ReadSlices> Create(const v1::CheckpointManifest& manifest) {
    ReadSlices slices;
    slices.shard_count_ = manifest.job().cluster().shard_count();
    for (const v1::TableSpec& table : manifest.tables()) {
      slices.names_.push_back(table.name());
      Table& added = slices.tables_.emplace_back();
      const v1::OptimizerSpec& spec = OptimizerOf(manifest.job(), table);
      added.slicing = Slicing(ElementCount(table), SliceBytes(manifest.job().scheduler()));
      added.slice_count = added.slicing.slice_count();
      if (table.has_sparse()) {
        ASSIGN_OR_RETURN(added.of_rows, MakeRowOptimizer(spec, table.sparse().dim()));
        added.slice_count = slices.shard_count_;
      } else if (table.replies_mean()) {
        added.state_count = kMaxTableStateArrays;
        added.is_of_program = true;
      } else {
        ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(spec));
        added.state_count = static_cast<size_t>(optimizer->state_count());
      }
    }
    return slices;
  }

  absl::Span<const std::string> table_names() const { return names_; }

  // The slice's table is one of the job's.
  absl::Status Add(const SliceSnapshot& slice) {
    const Table& table = tables_[slice.key.table.value()];
    if (slice.key.slice.value() >= table.slice_count) {
      return Unexpected(absl::StrCat("slices below ", table.slice_count, ", got"), slice.key);
    }
    if ((slice.rows != nullptr) != (table.of_rows != nullptr)) {
      return Unexpected(absl::StrCat("a ", table.of_rows != nullptr ? "sparse" : "dense",
                                     " table, got the other kind in"),
                        slice.key);
    }
    RETURN_IF_ERROR(slice.rows != nullptr ? CheckRows(slice, *table.of_rows)
                                          : CheckArrays(slice, table));
    if (keys_.insert(slice.key).second) return absl::OkStatus();
    return Unexpected("each slice once, got again", slice.key);
  }

  // INVALID_ARGUMENT, naming the first slice that has not come.
  absl::Status CheckAllHaveCome() const {
    for (uint32_t table = 0; table < tables_.size(); ++table) {
      for (uint32_t slice = 0; slice < tables_[table].slice_count; ++slice) {
        const SliceKey key{TableId(table), SliceIndex(slice)};
        if (!keys_.contains(key)) return Unexpected("all slices in its shards, got none for", key);
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Table {
    Slicing slicing{0, 1};  // of a dense one
    uint32_t slice_count = 0;
    size_t state_count = 0;                                 // a dense one's arrays for each slice
    bool is_of_program = false;                             // which has at most as many
    std::unique_ptr<const RowOptimizer> of_rows = nullptr;  // a sparse one's
  };

  absl::Status CheckArrays(const SliceSnapshot& slice, const Table& table) const {
    const uint64_t bytes = table.slicing.Range(slice.key.slice).size * sizeof(float);
    if (slice.values.size_bytes() != bytes) {
      return Unexpected(absl::StrCat(bytes, " bytes, got ", slice.values.size_bytes(), " in"),
                        slice.key);
    }
    const size_t arrays = slice.optimizer_state.size();
    if (arrays == table.state_count || (table.is_of_program && arrays < table.state_count)) {
      return absl::OkStatus();
    }
    return Unexpected(absl::StrCat(table.state_count, " arrays of the optimizer, got ",
                                   slice.optimizer_state.size(), " in"),
                      slice.key);
  }

  absl::Status CheckRows(const SliceSnapshot& slice, const RowOptimizer& optimizer) const {
    const SparseRowsSnapshot& rows = *slice.rows;
    for (const uint64_t key : rows.keys) {
      const ShardId shard = ShardOfKey(key, shard_count_);
      if (shard.value() == slice.key.slice.value()) continue;
      return Unexpected(absl::StrCat("key ", key, " in slice ", shard.value(), ", got it in"),
                        slice.key);
    }
    if (rows.dim == optimizer.dim() && rows.state_floats == optimizer.state_floats()) {
      return absl::OkStatus();
    }
    return Unexpected(
        absl::StrCat("rows of ", optimizer.dim(), " values and ", optimizer.state_floats(),
                     " floats of state, got ", rows.dim, " and ", rows.state_floats, " in"),
        slice.key);
  }

  absl::Status Unexpected(absl::string_view expected, SliceKey key) const {
    return absl::InvalidArgumentError(absl::StrCat("expected ", expected, " slice ",
                                                   key.slice.value(), " of table ",
                                                   names_[key.table.value()]));
  }

  ReadSlices() = default;

  uint32_t shard_count_ = 0;
  std::vector<std::string> names_;
  std::vector<Table> tables_;
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
