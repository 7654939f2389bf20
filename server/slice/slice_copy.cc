// The copy of a slice on another server: how it is made, and how it follows.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/slice/slice.h"

namespace capstan {

void Slice::NoteChanges(ChangeSink* sink, SliceKey key) {
  changes_.SetSink(sink, key);
  kept_.set_pool(sink == nullptr ? nullptr : &sink->pool());
}

void Slice::Orphan(WorkerId worker) {
  kept_.Orphan(worker, [this](const CheckedPush& push) { changes_.NoteOrphan(Now(), push); });
}

void Slice::LoseWorker(WorkerId worker) {
  Orphan(worker);
  if (changes_.is_on()) changes_.NoteMembers(Now(), {}, {}, AppliedEntries());
}

std::vector<StepVector::Entry> Slice::AppliedEntries() const {
  std::vector<StepVector::Entry> entries = steps_.entries();
  for (StepVector::Entry& entry : entries) {
    entry.completed =
        std::min(entry.completed, kept_.FirstOf(entry.worker).value_or(entry.completed));
  }
  return entries;
}

Slice::Copy Slice::MakeCopy() const {
  Copy copy = ProgressForCopy();
  Save(copy.snapshot);
  return copy;
}

Slice::Copy Slice::BeginCopy() {
  Copy copy = ProgressForCopy();
  SaveForCopyLater(copy.snapshot);
  return copy;
}

Slice::Copy Slice::ProgressForCopy() const {
  Copy copy;
  SliceSnapshot& snapshot = copy.snapshot;
  snapshot.version = version();
  snapshot.min_step = steps_.min_step();
  snapshot.largest_step = largest_step_;
  snapshot.schedule = schedule_->source();
  snapshot.workers = AppliedEntries();
  snapshot.own_arrays = own_.arrays();
  kept_.Save(snapshot, /*orphans_only=*/true);
  copy.rest.set_awaits_initial(awaits_initial_);
  copy.rest.set_parameters_cut(parameters_cut_);
  SetSliceWorkers(snapshot.workers, copy.rest.mutable_workers());
  capstan::SetSchedule(*schedule_, copy.rest.mutable_schedule());
  own_.SaveForCopy(*copy.rest.mutable_states(), copy.rest_bytes);
  SaveForCopy(copy);
  return copy;
}

absl::Status Slice::RestoreCopy(const v1::CopiedSlice& rest, PayloadReader& bytes) {
  awaits_initial_ = rest.awaits_initial();
  parameters_cut_ = rest.parameters_cut();
  steps_.Follow(ReadSliceWorkers(rest.workers()), steps_.min_step());
  ASSIGN_OR_RETURN(schedule_, ReadSchedule(rest.schedule()));
  RETURN_IF_ERROR(own_.LoadForCopy(rest.states(), bytes));
  return LoadForCopy(rest, bytes);
}

void Slice::NoteHash() const {
  v1::ReplicaChange change;
  change.mutable_check()->set_xxh3(Hash());
  changes_.Note(Now(), std::move(change));
}

absl::StatusOr<CheckedPush> Slice::ReadKnown(const v1::PushHead& head, PayloadReader& payload) {
  if (!steps_.knows(WorkerId(head.worker()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": a change of a worker that the copy does not know"));
  }
  return ReadNoted(head, payload);
}

absl::Status Slice::FollowStep(const v1::ReplicaChange& change, const Payload& payload) {
  const v1::AppliedStep& applied = change.step();
  const Step step(applied.step());
  PayloadReader reader(payload);
  std::vector<CheckedPush> read;
  if (applied.is_mean()) {
    ASSIGN_OR_RETURN(read.emplace_back(), ReadMean(applied, reader));
  } else {
    for (const v1::PushHead& head : applied.pushes()) {
      ASSIGN_OR_RETURN(read.emplace_back(), ReadKnown(head, reader));
    }
  }
  std::vector<HostBuffer> memory;
  std::vector<const CheckedPush*> pushes;
  bool has_gradient = false;
  for (CheckedPush& push : read) {
    pushes.push_back(&push);
    if (!push.gradient.has_value()) continue;
    has_gradient = true;
    // Means are taken of gradients in one piece.
    if (read.size() > 1 && !push.gradient->InPlace().has_value()) {
      memory.push_back(push.gradient->Keep(
          [](size_t bytes) { return HostBuffer((bytes + sizeof(float) - 1) / sizeof(float)); }));
    }
  }
  KeepValuesOf(step);
  if (applied.is_mean()) {
    Apply(read.front(), /*learning_rate_divisor=*/1);
  } else if (has_gradient) {
    ApplyMean(step, pushes, /*mean=*/nullptr);
  }
  kept_.DropUntil(step);
  for (const v1::PushHead& head : applied.pushes()) {
    const WorkerId worker(head.worker());
    steps_.Follow(worker,
                  std::max(steps_.knows(worker) ? steps_.completed(worker) : Step(), step + 1),
                  Step(change.min_step()));
    own_.NotePush(worker);
  }
  return absl::OkStatus();
}

absl::Status Slice::FollowPush(const v1::ReplicaChange& change, const Payload& payload) {
  const v1::PushHead& head = change.push().push();
  const WorkerId worker(head.worker());
  const Step step(head.step());
  PayloadReader reader(payload);
  ASSIGN_OR_RETURN(const CheckedPush push, ReadKnown(head, reader));
  if (push.gradient.has_value()) Apply(push, change.push().learning_rate_divisor());
  kept_.Drop(step, worker);
  steps_.Follow(worker, std::max(steps_.completed(worker), step + 1), Step(change.min_step()));
  own_.NotePush(worker);
  return absl::OkStatus();
}

absl::Status Slice::FollowKept(const v1::ReplicaChange& change, const Payload& payload) {
  const v1::PushHead& head = change.kept_push().push();
  PayloadReader reader(payload);
  ASSIGN_OR_RETURN(CheckedPush push, ReadKnown(head, reader));
  kept_.Add(WorkerId(head.worker()), std::move(push), /*is_orphan=*/true);
  return absl::OkStatus();
}

void Slice::FollowMembers(const v1::ReplicaChange& change) {
  const v1::SliceMembers& members = change.slice_members();
  for (const uint32_t worker : members.added()) {
    own_.AddWorker(WorkerId(worker));
    Forget(WorkerId(worker));
  }
  for (const uint32_t worker : members.removed()) {
    own_.RemoveWorker(WorkerId(worker));
    Forget(WorkerId(worker));
  }
  steps_.Follow(ReadSliceWorkers(members.workers()), Step(change.min_step()));
}

absl::Status Slice::FollowKind(const v1::ReplicaChange& change, const Payload& payload) {
  switch (change.kind_case()) {
    case v1::ReplicaChange::kStep:
      RETURN_IF_ERROR(FollowStep(change, payload));
      break;
    case v1::ReplicaChange::kPush:
      RETURN_IF_ERROR(FollowPush(change, payload));
      break;
    case v1::ReplicaChange::kKeptPush:
      RETURN_IF_ERROR(FollowKept(change, payload));
      break;
    case v1::ReplicaChange::kSliceMembers:
      FollowMembers(change);
      break;
    case v1::ReplicaChange::kSchedule: {
      ASSIGN_OR_RETURN(schedule_, ReadSchedule(change.schedule()));
      break;
    }
    case v1::ReplicaChange::kEndedFirstStep:
      steps_.EndFirstStep(WorkerId(change.ended_first_step().worker()),
                          Step(change.ended_first_step().step()));
      break;
    case v1::ReplicaChange::kCheck:
      if (Hash() == change.check().xxh3()) break;
      return absl::DataLossError(
          absl::StrCat(name_, " has other bytes at version ", version(), " than its copy"));
    case v1::ReplicaChange::kCut:
      own_.SkipTo(change.cut().number());
      break;
    default:
      RETURN_IF_ERROR(FollowOwn(change, payload));
  }
  return absl::OkStatus();
}

absl::Status Slice::Follow(const v1::ReplicaChange& change, const Payload& payload) {
  is_following_ = true;
  const absl::Status followed = FollowKind(change, payload);
  is_following_ = false;
  RETURN_IF_ERROR(followed);
  largest_step_ = std::max(largest_step_, Step(change.largest_step()));
  if (version() == change.version() && steps_.min_step() == Step(change.min_step())) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      name_, ": the copy has version ", version(), " and min_step ", steps_.min_step().value(),
      ", but its slice has ", change.version(), " and ", change.min_step()));
}

}  // namespace capstan
