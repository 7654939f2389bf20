// Rows for readers, which are in many shards.

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/routing/key_shard.h"
#include "server/shard/shard_host.h"

namespace capstan {
namespace {

// Collects the rows of all shards. Thread-safe.
class GatheredRows {
 public:
  GatheredRows(size_t count, size_t shards, Shard::ReadCallback done)
      : rows_(count), missing_(shards), done_(std::move(done)) {}

  // The rows of a shard, and which ones they are.
  void Take(const std::vector<size_t>& indices,
            absl::StatusOr<std::vector<std::vector<float>>> rows) {
    {
      MutexLock lock(&mu_);
      if (!rows.ok()) status_ = rows.status();
      for (size_t i = 0; rows.ok() && i < indices.size(); ++i) {
        rows_[indices[i]] = std::move((*rows)[i]);
      }
      if (--missing_ > 0) return;
    }
    // Nobody else is left.
    status_.ok() ? done_(std::move(rows_)) : done_(status_);
  }

 private:
  Mutex mu_;
  std::vector<std::vector<float>> rows_;
  size_t missing_ ABSL_GUARDED_BY(mu_);
  absl::Status status_;
  Shard::ReadCallback done_;
};

}  // namespace

void ShardHost::ReadRows(absl::string_view table, absl::Span<const uint64_t> keys,
                         Shard::ReadCallback done) {
  const std::vector<Table>& tables = options_.tables;
  const auto found = std::find_if(tables.begin(), tables.end(), [table](const Table& one) {
    return one.name == table && one.sparse.has_value();
  });
  if (found == tables.end()) {
    return done(absl::InvalidArgumentError(absl::StrCat(
        "expected the name of a sparse table of the job, got ", ShortPrintableText(table))));
  }
  std::map<ShardId, std::vector<size_t>> indices;
  for (size_t i = 0; i < keys.size(); ++i) {
    const ShardId id = ShardOfKey(keys[i], options_.shard_count);
    if (shard_of_id_[id.value()] == nullptr) {
      return done(absl::FailedPreconditionError(absl::StrCat(
          "key ", keys[i], " is in shard ", id.value(), ", which is not on this server")));
    }
    indices[id].push_back(i);
  }
  if (indices.empty()) return done(std::vector<std::vector<float>>());
  const auto gathered =
      std::make_shared<GatheredRows>(keys.size(), indices.size(), std::move(done));
  const TableId id(static_cast<uint32_t>(found - tables.begin()));
  for (const auto& [shard, of_shard] : indices) {
    std::vector<uint64_t> part;
    for (const size_t index : of_shard) part.push_back(keys[index]);
    shard_of_id_[shard.value()].load()->ReadRows(
        RowsIn(shard, id), part, found->sparse->optimizer->dim(),
        [gathered, of_shard = of_shard](absl::StatusOr<std::vector<std::vector<float>>> rows) {
          gathered->Take(of_shard, std::move(rows));
        });
  }
}

}  // namespace capstan
