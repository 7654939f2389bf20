#include "server/shard/shard_backup.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/wire/exchange_header.h"
#include "server/replication/copied_slice.h"
#include "server/shard/shard_members.h"

namespace capstan {
namespace {

// The payload of one change: a slice has at most 64 MiB, and 16 arrays of its optimizer as long.
constexpr size_t kMostPartBytes = size_t{4} << 30;

// When a worker comes or is lost, each slice of a shard has a few.
constexpr size_t kMostChangesOfMoment = size_t{1} << 20;

bool HasRowsOfOneLength(const SparseRowsSnapshot& rows) {
  const size_t count = rows.keys.size();
  return rows.values.size() == count * rows.dim && rows.state.size() == count * rows.state_floats &&
         (rows.last_touch.empty() || rows.last_touch.size() == count);
}

// Memory of a connection must not be kept.
Payload OwnCopy(const Payload& payload) {
  const auto bytes = std::make_shared<std::vector<uint8_t>>(payload.size_bytes());
  payload.CopyTo(absl::MakeSpan(*bytes));
  Payload copy{bytes};
  copy.Append(*bytes);
  return copy;
}

}  // namespace

void ShardBackup::Expect(uint64_t number) {
  MutexLock lock(&mu_);
  if (number <= number_) return;
  number_ = number;
  sequence_ = 0;
  fault_ = absl::OkStatus();
  DropLocked();
}

absl::StatusOr<ShardContents> ShardBackup::TakeOver() {
  MutexLock lock(&mu_);
  if (!IsWholeLocked()) {
    return absl::DataLossError(fault_.ok() ? "the copy is not whole" : fault_.message());
  }
  has_taken_over_ = true;
  ShardContents contents = std::move(contents_);
  DropLocked();
  return contents;
}

bool ShardBackup::IsWholeLocked() const {
  return fault_.ok() && sequence_ > 0 && contents_.slices.size() == expected_slices_ &&
         !pending_.has_value() && !has_taken_over_;
}

void ShardBackup::DropLocked() {
  contents_ = ShardContents();
  pending_.reset();
  moment_.clear();
  parts_ = {};
}

ExchangeReply ShardBackup::AnswerLocked(absl::Status status) const {
  ExchangeReply reply = ErrorReply(std::move(status));
  reply.version = sequence_;
  return reply;
}

ExchangeReply ShardBackup::Take(const ReplicaRecord& record) {
  MutexLock lock(&mu_);
  if (number_ == 0 || record.copy != number_) {
    return AnswerLocked(absl::FailedPreconditionError(
        absl::StrCat("expected a change of copy ", number_, ", got one of copy ", record.copy)));
  }
  if (has_taken_over_) {
    return AnswerLocked(absl::FailedPreconditionError("this server is the shard's primary now"));
  }
  if (!fault_.ok()) return AnswerLocked(fault_);
  if (record.sequence <= sequence_) return AnswerLocked(absl::OkStatus());  // It was done before.
  if (record.sequence != sequence_ + 1) {
    return AnswerLocked(absl::OutOfRangeError(
        absl::StrCat("expected change ", sequence_ + 1, ", got change ", record.sequence)));
  }
  v1::ReplicaChange change;
  absl::Status status = change.ParseFromString(record.change)
                            ? FollowMoments(std::move(change), record.bytes)
                            : absl::InvalidArgumentError("expected a change, got other bytes");
  if (!status.ok()) {
    // Whatever it is, this copy is of no use any more.
    fault_ = absl::DataLossError(status.message());
    DropLocked();
    return AnswerLocked(fault_);
  }
  sequence_ = record.sequence;
  return AnswerLocked(absl::OkStatus());
}

absl::Status ShardBackup::FollowMoments(v1::ReplicaChange change, const Payload& payload) {
  const bool has_more = change.has_more();
  if (moment_.empty() && !(has_more && IsWholeLocked())) return FollowInParts(change, payload);
  if (moment_.size() == kMostChangesOfMoment) {
    return absl::InvalidArgumentError("a moment has too many changes");
  }
  moment_.emplace_back(std::move(change), payload);
  if (has_more) return absl::OkStatus();
  const auto changes = std::exchange(moment_, {});
  for (const auto& [one, bytes] : changes) RETURN_IF_ERROR(FollowInParts(one, bytes));
  return absl::OkStatus();
}

absl::Status ShardBackup::FollowInParts(const v1::ReplicaChange& change, const Payload& payload) {
  const bool is_part = change.kind_case() == v1::ReplicaChange::kPart;
  if (!is_part && parts_.empty()) return FollowLocked(change, payload);
  const size_t begin = parts_.size();
  if (begin > kMostPartBytes) return absl::InvalidArgumentError("a change has too many bytes");
  parts_.resize(begin + payload.size_bytes());
  payload.CopyTo(absl::MakeSpan(parts_).subspan(begin));
  if (is_part) return absl::OkStatus();
  const auto bytes = std::make_shared<std::vector<uint8_t>>(std::exchange(parts_, {}));
  Payload whole{bytes};
  whole.Append(*bytes);
  return FollowLocked(change, whole);
}

absl::Status ShardBackup::FollowLocked(const v1::ReplicaChange& change, const Payload& payload) {
  switch (change.kind_case()) {
    case v1::ReplicaChange::kBarrier:
      return absl::OkStatus();
    case v1::ReplicaChange::kBegin:
      return BeginLocked(change.begin(), payload);
    case v1::ReplicaChange::kCopiedSlice:
      return TakeSliceLocked(change, payload);
    case v1::ReplicaChange::kCopiedRows:
      return TakeRowsLocked(change.copied_rows(), payload);
    case v1::ReplicaChange::kMembers:
      SetMembersLocked(change.members());
      return absl::OkStatus();
    case v1::ReplicaChange::kCollectiveProgress: {
      ReleasedReplies unused;
      contents_.collectives.NoteProgress(WorkerId(change.collective_progress().worker()),
                                         Step(change.collective_progress().next_step()), &unused);
      return absl::OkStatus();
    }
    default:
      break;
  }
  const SliceKey key{TableId(change.table()), SliceIndex(change.slice())};
  const bool is_collective = change.exchange().request().has_collective();
  if (pending_.has_value() && pending_->key == key && !is_collective) {
    pending_->changes.emplace_back(change, OwnCopy(payload));
    return absl::OkStatus();
  }
  return FollowSliceLocked(key, change, payload);
}

absl::Status ShardBackup::FollowSliceLocked(SliceKey key, const v1::ReplicaChange& change,
                                            const Payload& payload) {
  if (change.has_exchange()) return ExchangeLocked(change.exchange(), payload);
  const auto found = contents_.slices.find(key);
  if (found != contents_.slices.end()) return found->second->Follow(change, payload);
  return absl::InvalidArgumentError(absl::StrCat("a change of slice ", key.slice.value(),
                                                 " of table ", key.table.value(),
                                                 ", which the copy does not have"));
}

absl::Status ShardBackup::BeginLocked(const v1::CopyBegin& begin, const Payload& payload) {
  DropLocked();
  expected_slices_ = begin.slices();
  for (const v1::ShardMember& member : begin.workers()) {
    contents_.workers.emplace(WorkerId(member.worker()), LoadMember(member));
  }
  v1::CollectivesState collectives;
  std::string bytes(payload.size_bytes(), '\0');
  payload.CopyTo(absl::Span<uint8_t>(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()));
  if (!collectives.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("expected the state of collective operations");
  }
  return contents_.collectives.Load(collectives);
}

absl::Status ShardBackup::TakeSliceLocked(const v1::ReplicaChange& change, const Payload& payload) {
  const v1::CopiedSlice& copied = change.copied_slice();
  PayloadReader reader(payload);
  ASSIGN_OR_RETURN(SliceSnapshot snapshot, DecodeCopy(change, reader));
  ASSIGN_OR_RETURN(std::unique_ptr<Slice> slice, make_slice_(snapshot));
  RETURN_IF_ERROR(slice->RestoreCopy(copied, reader));
  if (copied.has_rows()) {
    pending_.emplace(Pending{snapshot.key, *snapshot.rows, std::move(slice), {}});
  } else {
    contents_.slices[snapshot.key] = std::move(slice);
  }
  return absl::OkStatus();
}

absl::Status ShardBackup::TakeRowsLocked(const v1::CopiedRows& copied, const Payload& payload) {
  if (!pending_.has_value()) return absl::InvalidArgumentError("rows of a slice that is not here");
  SparseRowsSnapshot rows = pending_->head;
  RETURN_IF_ERROR(DecodeRows(copied, payload, &rows));
  if (!HasRowsOfOneLength(rows)) {
    return absl::InvalidArgumentError("rows of a copy do not fit together");
  }
  SortByKey(rows);
  RETURN_IF_ERROR(pending_->slice->AddCopiedRows(rows, copied.is_last()));
  if (!copied.is_last()) return absl::OkStatus();
  Pending pending = *std::move(pending_);
  pending_.reset();
  contents_.slices[pending.key] = std::move(pending.slice);
  for (const auto& [change, bytes] : pending.changes) {
    RETURN_IF_ERROR(FollowSliceLocked(pending.key, change, bytes));
  }
  return absl::OkStatus();
}

void ShardBackup::SetMembersLocked(const v1::ShardMembers& members) {
  contents_.workers.clear();
  std::vector<ShardWorker> workers;
  for (const v1::ShardMember& member : members.workers()) {
    workers.push_back(LoadMember(member));
    contents_.workers.emplace(workers.back().worker, workers.back());
  }
  ReleasedReplies unused;
  if (members.has_collectives()) contents_.collectives.SetWorkers(workers, &unused);
}

absl::Status ShardBackup::ExchangeLocked(const v1::WorkersExchange& exchange,
                                         const Payload& payload) {
  RequestFrame frame;
  FromHeader(exchange.request(), payload.size_bytes(), &frame);
  RETURN_IF_ERROR(frame.request.status());
  SetPayload(payload, &frame);
  ExchangeRequest& request = *frame.request;
  const auto ignore = [](const ExchangeReply&) {};
  // The primary has answered it, with an error or not; the same happens here, unless there is no
  // memory.
  ReleasedReplies replies;
  const WorkerId worker = request.sender.worker;
  if (auto* collective = std::get_if<Collective>(&request.purpose)) {
    contents_.collectives.Exchange(worker, std::move(*collective), ignore, &replies);
    return absl::OkStatus();
  }
  const auto found = contents_.slices.find(request.slice);
  if (found == contents_.slices.end()) {
    return absl::InvalidArgumentError("an exchange of a slice that the copy does not have");
  }
  const bool is_state = std::holds_alternative<WorkerState>(request.purpose) ||
                        std::holds_alternative<TableState>(request.purpose) ||
                        std::holds_alternative<InitialValues>(request.purpose) ||
                        std::holds_alternative<OptimizerState>(request.purpose);
  if (!is_state) return absl::InvalidArgumentError("an exchange that no copy needs");
  found->second->Exchange(std::move(request), ignore, &replies);
  for (const auto& [done, reply] : replies) {
    if (absl::IsResourceExhausted(reply.status)) return reply.status;
  }
  return absl::OkStatus();
}

void ShardBackup::LookAt(
    absl::FunctionRef<void(uint64_t sequence, bool is_whole, const ShardContents& contents)> use)
    const {
  MutexLock lock(&mu_);
  use(sequence_, IsWholeLocked(), contents_);
}

SliceMemory ShardBackup::memory() const {
  MutexLock lock(&mu_);
  SliceMemory memory;
  for (const auto& [key, slice] : contents_.slices) memory += slice->memory();
  if (pending_.has_value()) memory += pending_->slice->memory();
  return memory;
}

}  // namespace capstan
