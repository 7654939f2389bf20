#ifndef SERVER_SLICE_SLICE_CHANGES_H_
#define SERVER_SLICE_SLICE_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/payload.h"
#include "common/tensor/buffer_pool.h"
#include "common/tensor/slicing.h"
#include "proto/replica.pb.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/step_vector.h"
#include "server/slice/payload_reader.h"
#include "server/slice/push_log.h"

namespace capstan {

// Takes the changes of a shard, in their order, for its copy on another server. The shard's lock
// guards it.
class ChangeSink {
 public:
  virtual ~ChangeSink() = default;
  // `payload` is not changed while somebody reads it.
  virtual void Add(v1::ReplicaChange change, Payload payload) = 0;
  // Memory for payloads. Outlives them.
  virtual BufferPool& pool() = 0;
};

// The mean of a step, for the copy. Whoever applies the mean fills it in, if it has fewer bytes
// than the pushes.
struct MeanForCopy {
  BufferPool* pool = nullptr;  // Required
  Payload values;              // float32; empty: the pushes are to travel as they came
  std::vector<uint64_t> keys;  // of a sparse table
};

// Bytes of the pushes of a step, with their keys.
size_t BytesOf(PushesOfStep pushes);

// What a slice notes for its copy. Without a sink nothing is noted. Each call follows the change.
class SliceChanges {
 public:
  // The slice as it is after the change.
  struct Now {
    uint64_t version = 0;
    Step min_step;
    Step largest_step;
  };

  // Null: no more.
  void SetSink(ChangeSink* sink, SliceKey key) {
    sink_ = sink;
    key_ = key;
  }
  bool is_on() const { return sink_ != nullptr; }
  BufferPool* pool() const { return &sink_->pool(); }

  void NoteStep(const Now& now, Step step, PushesOfStep pushes, MeanForCopy mean,
                const std::shared_ptr<const void>& memory) const;
  // `memory` keeps the gradient alive, if it does not itself.
  void NotePush(const Now& now, const CheckedPush& push, uint64_t learning_rate_divisor,
                const std::shared_ptr<const void>& memory = nullptr) const;
  void NoteOrphan(const Now& now, const CheckedPush& push) const;
  void NoteMembers(const Now& now, absl::Span<const WorkerId> added,
                   absl::Span<const WorkerId> removed,
                   absl::Span<const StepVector::Entry> workers) const;
  void NoteSchedule(const Now& now, const ConsistencySchedule& schedule) const;
  // `change` has its kind.
  void Note(const Now& now, v1::ReplicaChange change, Payload payload = {}) const;

 private:
  ChangeSink* sink_ = nullptr;
  SliceKey key_;
};

// The push as a request has it, of a dense or of a sparse table. INVALID_ARGUMENT.
absl::StatusOr<DenseStep> ReadDensePush(const v1::PushHead& head, PayloadReader& payload);
absl::StatusOr<RowStep> ReadRowPush(const v1::PushHead& head, PayloadReader& payload);
// Ascending keys, as a payload of their list; and back. INVALID_ARGUMENT.
Payload EncodeKeys(absl::Span<const uint64_t> keys, BufferPool& pool);
absl::StatusOr<std::vector<uint64_t>> DecodeKeys(uint32_t count, const Payload& list);

void SetSliceWorkers(absl::Span<const StepVector::Entry> workers,
                     google::protobuf::RepeatedPtrField<v1::SliceWorker>* list);
std::vector<StepVector::Entry> ReadSliceWorkers(
    const google::protobuf::RepeatedPtrField<v1::SliceWorker>& list);
void SetSchedule(const ConsistencySchedule& schedule, v1::Schedule* list);
// INVALID_ARGUMENT.
absl::StatusOr<std::shared_ptr<const ConsistencySchedule>> ReadSchedule(const v1::Schedule& list);

}  // namespace capstan

#endif  // SERVER_SLICE_SLICE_CHANGES_H_
