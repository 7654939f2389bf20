#ifndef SERVER_SLICE_DENSE_SLICE_H_
#define SERVER_SLICE_DENSE_SLICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/optimizer/optimizer.h"
#include "server/slice/encoded_values.h"
#include "server/slice/parked_pulls.h"
#include "server/slice/push_log.h"
#include "server/slice/shard_counts.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice.h"
#include "server/slice/slice_state.h"
#include "server/slice/worker_copies.h"

namespace capstan {

// A slice of a dense table: contiguous elements of one tensor.
class DenseSlice : public Slice {
 public:
  struct Options {
    Slice::Options slice;
    SliceState::Memory memory;  // Required: with the initial values
    // Required, unless the table replies the mean; outlives the slice.
    const Optimizer* optimizer = nullptr;
    uint32_t own_arrays = 0;  // of each worker's own state
    TableCodecs codecs;       // Required: of pushes and pulls
    DrawKey pull_draws;       // of encoded values; their version takes the place of the step
    ReplyStateBudget* reply_state = nullptr;  // Required for a topk of pulls; outlives the slice
    // A worker that takes a lost one's place may do the slice's latest step again, though it is
    // applied. That takes one more copy of the values. No topk of pulls.
    bool keeps_open_step = false;
  };

  // To go on from a snapshot, `memory` is its SliceState::Take.
  explicit DenseSlice(Options options);

  uint64_t version() const override { return state_.version(); }
  SliceMemory memory() const override;
  uint64_t Hash() const override;
  void TakeOver(Epoch epoch) override { copies_.BeginEpoch(epoch); }

 private:
  absl::Status ReadDense(WorkerId worker, DenseStep&& step, CheckedStep* read) const override;
  void Apply(const CheckedPush& push, uint64_t learning_rate_divisor) override;
  void ApplyMean(Step step, PushesOfStep pushes, MeanForCopy* mean) override;
  ExchangeReply ReplyWithValues(WorkerId worker, const ParkedPull& pull) override;
  void KeepValuesOf(Step step) override;
  std::optional<ExchangeReply> ReplyWithKept(const ParkedPull& pull) override;
  absl::Status SetInitialValues(const Payload& values) override;
  void SetParameters(const Payload& values) override { state_.SetValues(values); }
  ExchangeReply TakeOptimizerState(const OptimizerState& state) override;
  ExchangeReply ReadOptimizerState(uint32_t array) const override;
  void Forget(WorkerId worker) override { copies_.Forget(worker); }
  absl::StatusOr<CheckedPush> ReadNoted(const v1::PushHead& head, PayloadReader& payload) override;
  absl::StatusOr<CheckedPush> ReadMean(const v1::AppliedStep& step,
                                       PayloadReader& payload) const override;
  absl::Status FollowOwn(const v1::ReplicaChange& change, const Payload& payload) override;
  void SaveForCopy(Copy& copy) const override;
  absl::Status LoadForCopy(const v1::CopiedSlice& rest, PayloadReader& bytes) override;
  void Save(SliceSnapshot& snapshot) const override;
  absl::Status Load(const SliceSnapshot& snapshot) override;

  absl::Status LoadBefore(const v1::CopiedSlice& rest, PayloadReader& bytes);
  // INVALID_ARGUMENT unless there is one float32 for each element.
  absl::Status CheckValues(absl::string_view what, const Payload& values) const;
  absl::Status LoadOptimizerState(const OptimizerState& state);
  absl::StatusOr<WorkerCopies::Reply> EncodedReply(WorkerId worker, const ParkedPull& pull);

  // The values before the latest step.
  struct Before {
    Step step;
    Payload values;                // which no update changes
    absl::Span<const float> span;  // the same
    uint64_t version = 0;
  };

  const TableCodecs codecs_;
  const bool keeps_open_step_;
  SliceState state_;
  std::optional<Before> before_;
  EncodedValues encoded_values_;
  WorkerCopies copies_;  // used if codecs_.pull is a topk
};

}  // namespace capstan

#endif  // SERVER_SLICE_DENSE_SLICE_H_
