// Collective operations for a copy of the shard on another server.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "server/shard/collective_part.h"
#include "server/shard/collectives.h"
#include "server/shard/shard_members.h"

namespace capstan {
namespace {

std::string BytesOf(const Payload& payload) {
  std::string bytes(payload.size_bytes(), '\0');
  payload.CopyTo(absl::Span<uint8_t>(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()));
  return bytes;
}

Payload PayloadOf(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  Payload payload{owner};
  payload.Append({reinterpret_cast<const uint8_t*>(owner->data()), owner->size()});
  return payload;
}

void SavePart(const Collective& part, v1::CollectivesState::Part* saved) {
  saved->set_step(part.step.value());
  saved->set_number(part.number);
  saved->set_type(static_cast<v1::Collective::Type>(part.type));
  saved->set_dtype(static_cast<v1::Collective::Dtype>(part.dtype));
  saved->set_root(part.root.value());
  for (const uint64_t size : part.shape) saved->add_shape(size);
}

Collective LoadPart(const v1::CollectivesState::Part& saved) {
  Collective part;
  part.step = Step(saved.step());
  part.number = saved.number();
  part.type = static_cast<CollectiveType>(saved.type());
  part.dtype = static_cast<CollectiveDtype>(saved.dtype());
  part.root = WorkerId(saved.root());
  part.shape.assign(saved.shape().begin(), saved.shape().end());
  return part;
}

}  // namespace

void Collectives::Save(v1::CollectivesState* state) const {
  for (const auto& [id, place] : places_) {
    v1::CollectivesState::Place& saved = *state->add_places();
    SaveMember(place.worker, saved.mutable_worker());
    saved.set_next_step(place.next_step.value());
    saved.set_is_new(place.is_new);
    SavePart(place.latest, saved.mutable_latest());
    saved.set_is_joined(place.is_joined);
    saved.set_is_open(place.is_open);
    saved.set_values(place.values.data(), place.values.size());
    saved.set_code(static_cast<int>(place.status.code()));
    saved.set_message(std::string(place.status.message()));
    saved.set_result(BytesOf(place.result));
  }
  for (const auto& [worker, step] : open_steps_) {
    v1::CollectivesState::OpenStep& saved = *state->add_open_steps();
    saved.set_worker(worker.value());
    saved.set_step(step.value());
  }
  for (const auto& [name, done] : done_) {
    v1::CollectivesState::Done& saved = *state->add_done();
    SavePart(done.operation, saved.mutable_operation());
    saved.set_result(BytesOf(done.result));
  }
  state->set_incomplete(incomplete_.value());
  state->set_has_joined(has_joined_);
  state->set_all_joined(all_joined_.value());
  for (const uint64_t after : after_joins_) state->add_after_joins(after);
}

absl::Status Collectives::Load(const v1::CollectivesState& state) {
  for (const v1::CollectivesState::Place& saved : state.places()) {
    Place& place = places_[WorkerId(saved.worker().worker())];
    place.worker = LoadMember(saved.worker());
    place.next_step = Step(saved.next_step());
    place.is_new = saved.is_new();
    place.latest = LoadPart(saved.latest());
    place.is_joined = saved.is_joined();
    place.is_open = saved.is_open();
    place.values.assign(saved.values().begin(), saved.values().end());
    if (place.is_open) {
      Collective whole = place.latest;
      whole.values = PayloadOf(saved.values());
      RETURN_IF_ERROR(CheckPart(WorkerId(saved.worker().worker()), whole));
      place.done = [](const ExchangeReply&) {};
    }
    place.status = absl::Status(static_cast<absl::StatusCode>(saved.code()), saved.message());
    place.result = PayloadOf(saved.result());
  }
  for (const v1::CollectivesState::OpenStep& saved : state.open_steps()) {
    open_steps_[WorkerId(saved.worker())] = Step(saved.step());
  }
  for (const v1::CollectivesState::Done& saved : state.done()) {
    Collective operation = LoadPart(saved.operation());
    Payload result = PayloadOf(saved.result());
    done_bytes_ += KeptBytes(operation, result);
    const Name name = NameOf(operation);
    done_[name] = {std::move(operation), std::move(result)};
  }
  incomplete_ = Step(state.incomplete());
  has_joined_ = state.has_joined();
  all_joined_ = Step(state.all_joined());
  after_joins_.assign(state.after_joins().begin(), state.after_joins().end());
  return absl::OkStatus();
}

}  // namespace capstan
