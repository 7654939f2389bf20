#include "server/replication/copied_slice.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "server/slice/slice_changes.h"

namespace capstan {
namespace {

template <typename Number>
void AppendNumbers(const std::vector<Number>& numbers, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

template <typename Number>
absl::Status TakeInto(PayloadReader& bytes, uint64_t count, std::vector<Number>* numbers) {
  ASSIGN_OR_RETURN(const std::vector<Number> taken, bytes.TakeNumbers<Number>(count));
  numbers->insert(numbers->end(), taken.begin(), taken.end());
  return absl::OkStatus();
}

// Most arrays that an optimizer keeps for one slice.
constexpr uint32_t kMostArrays = 16;

void AppendKept(const SliceSnapshot::KeptPush& push, v1::PushHead* head, Payload& payload) {
  head->set_worker(push.worker.value());
  head->set_step(push.step.value());
  if (push.base_version.has_value()) head->set_base_version(*push.base_version);
  if (push.rates.learning_rate.has_value()) head->set_learning_rate(*push.rates.learning_rate);
  if (push.rates.momentum.has_value()) head->set_momentum(*push.rates.momentum);
  if (push.is_empty) return;
  head->set_codec(v1::FLOAT32);
  head->set_gradient_bytes(push.gradient.size_bytes());
  payload.Append(push.gradient);
  if (push.keys == nullptr) return;
  head->set_rows(static_cast<uint32_t>(push.keys->size()));
  Payload keys{push.keys};
  keys.Append(
      {reinterpret_cast<const uint8_t*>(push.keys->data()), push.keys->size() * sizeof(uint64_t)});
  payload.Append(keys);
}

absl::StatusOr<SliceSnapshot::KeptPush> ReadKept(const v1::PushHead& head, PayloadReader& bytes) {
  SliceSnapshot::KeptPush push;
  push.step = Step(head.step());
  push.worker = WorkerId(head.worker());
  if (head.has_base_version()) push.base_version = head.base_version();
  if (head.has_learning_rate()) push.rates.learning_rate = head.learning_rate();
  if (head.has_momentum()) push.rates.momentum = head.momentum();
  push.is_empty = head.codec() == v1::CODEC_UNSPECIFIED;
  if (push.is_empty) return push;
  ASSIGN_OR_RETURN(push.gradient, bytes.Take(head.gradient_bytes()));
  if (head.rows() == 0) return push;
  ASSIGN_OR_RETURN(std::vector<uint64_t> keys, bytes.TakeNumbers<uint64_t>(head.rows()));
  push.keys = std::make_shared<const std::vector<uint64_t>>(std::move(keys));
  return push;
}

}  // namespace

v1::ReplicaChange EncodeCopy(SliceKey key, Slice::Copy copy, Payload* payload) {
  const SliceSnapshot& slice = copy.snapshot;
  v1::ReplicaChange change;
  change.set_table(key.table.value());
  change.set_slice(key.slice.value());
  change.set_version(slice.version);
  change.set_min_step(slice.min_step.value());
  change.set_largest_step(slice.largest_step.value());
  v1::CopiedSlice& copied = *change.mutable_copied_slice();
  copied = std::move(copy.rest);
  copied.set_own_arrays(slice.own_arrays);
  if (slice.rows != nullptr) {
    copied.set_has_rows(true);
    copied.set_row_dim(static_cast<uint32_t>(slice.rows->dim));
    copied.set_row_state(static_cast<uint32_t>(slice.rows->state_floats));
    copied.set_last_row_step(slice.rows->last_step.value());
  } else {
    copied.set_array_bytes(slice.values.size_bytes());
    copied.set_optimizer_arrays(static_cast<uint32_t>(slice.optimizer_state.size()));
    copied.set_optimizer_steps(slice.optimizer_steps);
    payload->Append(slice.values);
    for (const Payload& array : slice.optimizer_state) payload->Append(array);
  }
  if (slice.copy.has_value()) {
    copied.set_copy_version(slice.copy->version);
    payload->Append(slice.copy->values);
  }
  for (const SliceSnapshot::KeptPush& push : slice.kept) {
    AppendKept(push, copied.add_kept(), *payload);
  }
  payload->Append(copy.rest_bytes);
  return change;
}

absl::StatusOr<SliceSnapshot> DecodeCopy(const v1::ReplicaChange& change, PayloadReader& bytes) {
  const v1::CopiedSlice& copied = change.copied_slice();
  if (copied.optimizer_arrays() > kMostArrays) {
    return absl::InvalidArgumentError("a copied slice has too many arrays");
  }
  SliceSnapshot slice;
  slice.key = {TableId(change.table()), SliceIndex(change.slice())};
  slice.version = change.version();
  slice.optimizer_steps = copied.optimizer_steps();
  slice.min_step = Step(change.min_step());
  slice.largest_step = Step(change.largest_step());
  slice.workers = ReadSliceWorkers(copied.workers());
  slice.own_arrays = copied.own_arrays();
  if (copied.has_rows()) {
    auto rows = std::make_shared<SparseRowsSnapshot>();
    rows->dim = copied.row_dim();
    rows->state_floats = copied.row_state();
    rows->last_step = Step(copied.last_row_step());
    slice.rows = std::move(rows);
    slice.rows_follow = true;
  } else {
    ASSIGN_OR_RETURN(slice.values, bytes.Take(copied.array_bytes()));
    for (uint32_t i = 0; i < copied.optimizer_arrays(); ++i) {
      ASSIGN_OR_RETURN(slice.optimizer_state.emplace_back(), bytes.Take(copied.array_bytes()));
    }
  }
  if (copied.has_copy_version()) {
    ASSIGN_OR_RETURN(Payload values, bytes.Take(copied.array_bytes()));
    slice.copy = SliceSnapshot::WorkerCopy{std::move(values), copied.copy_version()};
  }
  for (const v1::PushHead& head : copied.kept()) {
    ASSIGN_OR_RETURN(slice.kept.emplace_back(), ReadKept(head, bytes));
    const SliceSnapshot::KeptPush& push = slice.kept.back();
    if (!push.is_empty && copied.has_rows() != (push.keys != nullptr)) {
      return absl::InvalidArgumentError(
          "a kept push of a copied slice is of the other kind of table");
    }
  }
  return slice;
}

v1::ReplicaChange EncodeRows(SliceKey key, const SparseRowsSnapshot& rows, bool is_last,
                             Payload* payload) {
  const auto bytes = std::make_shared<std::string>();
  AppendNumbers(rows.keys, bytes.get());
  AppendNumbers(rows.values, bytes.get());
  AppendNumbers(rows.state, bytes.get());
  AppendNumbers(rows.last_touch, bytes.get());
  AppendNumbers(rows.sketch, bytes.get());
  *payload = Payload(bytes);
  payload->Append({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
  v1::ReplicaChange change;
  change.set_table(key.table.value());
  change.set_slice(key.slice.value());
  v1::CopiedRows& copied = *change.mutable_copied_rows();
  copied.set_rows(static_cast<uint32_t>(rows.keys.size()));
  copied.set_is_last(is_last);
  copied.set_has_ages(!rows.last_touch.empty());
  copied.set_sketch_bytes(rows.sketch.size());
  return change;
}

absl::Status DecodeRows(const v1::CopiedRows& change, const Payload& payload,
                        SparseRowsSnapshot* rows) {
  PayloadReader bytes(payload);
  const uint64_t count = change.rows();
  RETURN_IF_ERROR(TakeInto(bytes, count, &rows->keys));
  RETURN_IF_ERROR(TakeInto(bytes, count * rows->dim, &rows->values));
  RETURN_IF_ERROR(TakeInto(bytes, count * rows->state_floats, &rows->state));
  if (change.has_ages()) RETURN_IF_ERROR(TakeInto(bytes, count, &rows->last_touch));
  return TakeInto(bytes, change.sketch_bytes(), &rows->sketch);
}

}  // namespace capstan
