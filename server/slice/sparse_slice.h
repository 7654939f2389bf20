#ifndef SERVER_SLICE_SPARSE_SLICE_H_
#define SERVER_SLICE_SPARSE_SLICE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/exchange/rates.h"
#include "server/slice/parked_pulls.h"
#include "server/slice/push_log.h"
#include "server/slice/shard_counts.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice.h"
#include "server/slice/worker_copies.h"
#include "server/sparse/row_optimizer.h"
#include "server/sparse/sparse_rows.h"

namespace capstan {

// A slice of a sparse table: all rows of one shard. Rows are pushed and pulled by their keys. A
// worker's step is one exchange with each slice of the table, with rows or without any, so that
// steps advance in all slices alike.
class SparseSlice : public Slice {
 public:
  struct Options {
    Slice::Options slice;  // awaits_initial is false
    SparseRows::Options rows;
    const RowOptimizer* optimizer = nullptr;  // Required; outlives the slice
    // The slice has the keys of this shard, one of `shard_count`.
    ShardId shard;
    uint32_t shard_count = 1;
    TableCodecs codecs;  // Required: of pushes and pulls, no topk
    DrawKey pull_draws;  // of encoded values; their version takes the place of the step
    // The rows with which the latest step began are kept for whoever does it again. Only under BSP.
    bool keeps_open_step = false;
    // Memory for keys, which are kept from a pull until the push of its step. Required; outlives
    // the slice.
    ReplyStateBudget* key_memory = nullptr;
  };

  // INVALID_ARGUMENT: an option of the rows is out of range.
  static absl::StatusOr<std::unique_ptr<SparseSlice>> Create(Options options);
  ~SparseSlice() override;

  uint64_t version() const override { return version_; }
  bool ReadRow(uint64_t key, absl::Span<float> values) const override {
    return rows_->Read(key, values);
  }
  SliceMemory memory() const override;
  uint64_t Hash() const override { return rows_->Hash(); }

 private:
  // The keys of a worker's pull, for the push of the same step.
  struct PulledKeys {
    Step step;
    uint64_t hash = 0;
    RowKeys keys;
  };

  SparseSlice(Options options, std::unique_ptr<SparseRows> rows);

  absl::Status ReadRows(WorkerId worker, RowStep&& step, CheckedStep* read) override;
  void Apply(const CheckedPush& push, uint64_t learning_rate_divisor) override;
  void ApplyMean(Step step, PushesOfStep pushes, MeanForCopy* mean) override;
  void NotePush(WorkerId worker, Step step) override { DropPulled(worker, step); }
  ExchangeReply ReplyWithValues(WorkerId worker, const ParkedPull& pull) override;
  void KeepValuesOf(Step step) override;
  std::optional<ExchangeReply> ReplyWithKept(const ParkedPull& pull) override;
  absl::Status SetInitialValues(const Payload& values) override;
  ExchangeReply TakeOptimizerState(const OptimizerState& /*state*/) override {
    return ReadOptimizerState(/*array=*/0);
  }
  ExchangeReply ReadOptimizerState(uint32_t array) const override;
  void Forget(WorkerId worker) override;
  absl::StatusOr<CheckedPush> ReadNoted(const v1::PushHead& head, PayloadReader& payload) override;
  absl::StatusOr<CheckedPush> ReadMean(const v1::AppliedStep& step,
                                       PayloadReader& payload) const override;
  absl::Status FollowOwn(const v1::ReplicaChange& change, const Payload& payload) override;
  void SaveForCopy(Copy& copy) const override;
  absl::Status LoadForCopy(const v1::CopiedSlice& rest, PayloadReader& bytes) override;
  void Save(SliceSnapshot& snapshot) const override;
  void SaveCut(SliceSnapshot& snapshot) override { snapshot.rows_cut = rows_->Cut(); }
  void SaveForCopyLater(SliceSnapshot& snapshot) override;
  absl::Status Load(const SliceSnapshot& snapshot) override;
  absl::Status AddCopiedRows(const SparseRowsSnapshot& rows, bool is_last) override;

  size_t dim() const { return optimizer_.dim(); }
  // Completes the reply to a pull, whose version is that of the rows. `read` gives the rows.
  ExchangeReply WithRows(ExchangeReply reply, const ParkedPull& pull,
                         absl::FunctionRef<void(absl::Span<float> values)> read) const;
  absl::Status ReadGradient(WorkerId worker, RowStep& step, CheckedPush* read);
  // Decodes the list, or finds it among those that the worker has pulled. INVALID_ARGUMENT;
  // NOT_FOUND.
  absl::StatusOr<RowKeys> KeysOf(WorkerId worker, const KeyList& list) const;
  absl::StatusOr<RowKeys> DecodeKeys(const KeyList& list) const;
  // INVALID_ARGUMENT unless they ascend and are of this shard.
  absl::Status CheckKeys(absl::Span<const uint64_t> keys) const;
  // INVALID_ARGUMENT unless its keys are, and its kept pushes are as long as their keys say.
  absl::Status CheckSnapshot(const SliceSnapshot& snapshot) const;
  // Keeps the keys of a worker's pull, if there is memory.
  void NotePulled(WorkerId worker, PulledKeys pull);
  // Drops the keys of the worker's pulls up to `step`.
  void DropPulled(WorkerId worker, Step step);
  // Applies gradients of these keys, as one update.
  void Update(absl::Span<const uint64_t> keys, absl::Span<const float> gradients, Step step,
              uint64_t divisor, const Rates& rates);

  const RowOptimizer& optimizer_;
  const ShardId shard_;
  const uint32_t shard_count_;
  const TableCodecs codecs_;
  const DrawKey pull_draws_;
  ReplyStateBudget& key_memory_;

  const bool keeps_open_step_;

  uint64_t version_ = 0;
  std::unique_ptr<SparseRows> rows_;
  std::optional<Step> before_step_;  // rows_ has those before it
  uint64_t before_version_ = 0;
  std::map<WorkerId, std::vector<PulledKeys>> pulled_;  // the latest one last
};

}  // namespace capstan

#endif  // SERVER_SLICE_SPARSE_SLICE_H_
