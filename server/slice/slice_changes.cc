#include "server/slice/slice_changes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/key_list.h"

namespace capstan {
namespace {

// Appends the push's bytes to the payload. `memory` keeps its gradient alive; null: it does itself.
void AppendPush(const CheckedPush& push, const std::shared_ptr<const void>& memory,
                BufferPool& pool, v1::PushHead* head, Payload& payload) {
  head->set_worker(push.worker.value());
  head->set_step(push.step.value());
  if (push.base_version.has_value()) head->set_base_version(*push.base_version);
  if (push.rates.learning_rate.has_value()) head->set_learning_rate(*push.rates.learning_rate);
  if (push.rates.momentum.has_value()) head->set_momentum(*push.rates.momentum);
  if (!push.gradient.has_value()) return;
  head->set_codec(static_cast<v1::Codec>(push.gradient->codec()));
  head->set_gradient_bytes(push.gradient->size_bytes());
  const Payload& gradient = push.gradient->bytes();
  Payload owned{memory == nullptr ? gradient.owner() : memory};
  for (const Payload::Fragment part : gradient.fragments()) owned.Append(part);
  payload.Append(owned);
  if (push.keys == nullptr) return;
  const Payload keys = EncodeKeys(*push.keys, pool);
  head->set_rows(static_cast<uint32_t>(push.keys->size()));
  head->set_key_bytes(static_cast<uint32_t>(keys.size_bytes()));
  payload.Append(keys);
}

absl::StatusOr<StepPush> ReadPush(const v1::PushHead& head, PayloadReader& payload) {
  StepPush push;
  push.step = Step(head.step());
  if (head.has_base_version()) push.base_version = head.base_version();
  if (head.has_learning_rate()) push.rates.learning_rate = head.learning_rate();
  if (head.has_momentum()) push.rates.momentum = head.momentum();
  if (head.codec() == v1::CODEC_UNSPECIFIED) return push;
  Gradient& gradient = push.gradient.emplace();
  gradient.codec = static_cast<CodecType>(head.codec());
  ASSIGN_OR_RETURN(gradient.bytes, payload.Take(head.gradient_bytes()));
  return push;
}

}  // namespace

size_t BytesOf(PushesOfStep pushes) {
  size_t bytes = 0;
  for (const CheckedPush* const push : pushes) {
    if (push->gradient.has_value()) bytes += push->gradient->size_bytes();
    if (push->keys != nullptr) bytes += push->keys->size() * sizeof(uint64_t);
  }
  return bytes;
}

Payload EncodeKeys(absl::Span<const uint64_t> keys, BufferPool& pool) {
  const size_t most = MostKeyListBytes(keys.size());
  std::shared_ptr<uint8_t> memory = pool.Take(most);
  uint8_t* const bytes = memory.get();
  Payload list{std::move(memory)};
  list.Append({bytes, EncodeKeyList(keys, {bytes, most})});
  return list;
}

absl::StatusOr<std::vector<uint64_t>> DecodeKeys(uint32_t count, const Payload& list) {
  if (list.size_bytes() < LeastKeyListBytes(count)) {
    return absl::InvalidArgumentError(absl::StrCat("expected the keys of ", count, " rows, got ",
                                                   list.size_bytes(), " bytes of them"));
  }
  std::vector<uint64_t> keys(count);
  RETURN_IF_ERROR(DecodeKeyList(list.InOnePiece().piece(), absl::MakeSpan(keys)).status());
  return keys;
}

void SliceChanges::Note(const Now& now, v1::ReplicaChange change, Payload payload) const {
  if (sink_ == nullptr) return;
  change.set_table(key_.table.value());
  change.set_slice(key_.slice.value());
  change.set_version(now.version);
  change.set_min_step(now.min_step.value());
  change.set_largest_step(now.largest_step.value());
  sink_->Add(std::move(change), std::move(payload));
}

void SliceChanges::NoteStep(const Now& now, Step step, PushesOfStep pushes, MeanForCopy mean,
                            const std::shared_ptr<const void>& memory) const {
  v1::ReplicaChange change;
  v1::AppliedStep& applied = *change.mutable_step();
  applied.set_step(step.value());
  const bool is_mean = !mean.values.empty();
  applied.set_is_mean(is_mean);
  Payload payload;
  for (const CheckedPush* const push : pushes) {
    Payload unused;
    AppendPush(*push, memory, sink_->pool(), applied.add_pushes(), is_mean ? unused : payload);
  }
  if (is_mean) {
    payload = std::move(mean.values);
    if (!mean.keys.empty()) {
      const Payload keys = EncodeKeys(mean.keys, sink_->pool());
      applied.set_mean_rows(static_cast<uint32_t>(mean.keys.size()));
      applied.set_mean_key_bytes(static_cast<uint32_t>(keys.size_bytes()));
      payload.Append(keys);
    }
  }
  Note(now, std::move(change), std::move(payload));
}

void SliceChanges::NotePush(const Now& now, const CheckedPush& push, uint64_t learning_rate_divisor,
                            const std::shared_ptr<const void>& memory) const {
  if (sink_ == nullptr) return;
  v1::ReplicaChange change;
  v1::AppliedPush& applied = *change.mutable_push();
  applied.set_learning_rate_divisor(learning_rate_divisor);
  Payload payload;
  AppendPush(push, memory, sink_->pool(), applied.mutable_push(), payload);
  Note(now, std::move(change), std::move(payload));
}

void SliceChanges::NoteOrphan(const Now& now, const CheckedPush& push) const {
  if (sink_ == nullptr) return;
  v1::ReplicaChange change;
  Payload bytes;
  AppendPush(push, /*memory=*/nullptr, sink_->pool(), change.mutable_kept_push()->mutable_push(),
             bytes);
  // The slice goes on to use the memory.
  const std::shared_ptr<uint8_t> memory = sink_->pool().Take(bytes.size_bytes());
  bytes.CopyTo(absl::Span<uint8_t>(memory.get(), bytes.size_bytes()));
  Payload payload{memory};
  payload.Append({memory.get(), bytes.size_bytes()});
  Note(now, std::move(change), std::move(payload));
}

void SliceChanges::NoteMembers(const Now& now, absl::Span<const WorkerId> added,
                               absl::Span<const WorkerId> removed,
                               absl::Span<const StepVector::Entry> workers) const {
  v1::ReplicaChange change;
  v1::SliceMembers& members = *change.mutable_slice_members();
  for (const WorkerId worker : added) members.add_added(worker.value());
  for (const WorkerId worker : removed) members.add_removed(worker.value());
  SetSliceWorkers(workers, members.mutable_workers());
  Note(now, std::move(change));
}

void SliceChanges::NoteSchedule(const Now& now, const ConsistencySchedule& schedule) const {
  v1::ReplicaChange change;
  SetSchedule(schedule, change.mutable_schedule());
  Note(now, std::move(change));
}

absl::StatusOr<DenseStep> ReadDensePush(const v1::PushHead& head, PayloadReader& payload) {
  DenseStep step;
  ASSIGN_OR_RETURN(step.push, ReadPush(head, payload));
  return step;
}

absl::StatusOr<RowStep> ReadRowPush(const v1::PushHead& head, PayloadReader& payload) {
  RowStep step;
  ASSIGN_OR_RETURN(step.push, ReadPush(head, payload));
  step.pushed_keys.rows = head.rows();
  if (head.rows() == 0) return step;
  ASSIGN_OR_RETURN(Payload bytes, payload.Take(head.key_bytes()));
  step.pushed_keys.bytes = bytes.InOnePiece();
  step.pushed_keys.hash = HashKeyList(step.pushed_keys.bytes.piece());
  return step;
}

void SetSliceWorkers(absl::Span<const StepVector::Entry> workers,
                     google::protobuf::RepeatedPtrField<v1::SliceWorker>* list) {
  for (const StepVector::Entry& entry : workers) {
    v1::SliceWorker& worker = *list->Add();
    worker.set_worker(entry.worker.value());
    worker.set_completed(entry.completed.value());
    worker.set_is_live(entry.is_live);
    if (entry.first_step.has_value()) worker.set_first_step(entry.first_step->value());
  }
}

std::vector<StepVector::Entry> ReadSliceWorkers(
    const google::protobuf::RepeatedPtrField<v1::SliceWorker>& list) {
  std::vector<StepVector::Entry> workers;
  for (const v1::SliceWorker& worker : list) {
    StepVector::Entry& entry = workers.emplace_back();
    entry.worker = WorkerId(worker.worker());
    entry.completed = Step(worker.completed());
    entry.is_live = worker.is_live();
    if (worker.has_first_step()) entry.first_step = Step(worker.first_step());
  }
  return workers;
}

void SetSchedule(const ConsistencySchedule& schedule, v1::Schedule* list) {
  for (const ConsistencyPeriod& period : schedule.source()) {
    v1::PeriodOfSchedule& added = *list->add_periods();
    added.set_first_step(period.first_step.value());
    added.set_mode(static_cast<uint32_t>(period.mode));
    added.set_staleness(period.staleness);
  }
}

absl::StatusOr<std::shared_ptr<const ConsistencySchedule>> ReadSchedule(const v1::Schedule& list) {
  std::vector<ConsistencyPeriod> periods;
  for (const v1::PeriodOfSchedule& period : list.periods()) {
    periods.push_back({Step(period.first_step()), static_cast<ConsistencyMode>(period.mode()),
                       period.staleness()});
  }
  return MakeConsistencySchedule(periods);
}

}  // namespace capstan
