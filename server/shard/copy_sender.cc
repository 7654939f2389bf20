#include "server/shard/copy_sender.h"

#include <glog/logging.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/wire/exchange_header.h"
#include "server/replication/copied_slice.h"
#include "server/shard/shard_members.h"

namespace capstan {
namespace {

// While the copy is being made, replies wait if more of the shard is on its way. A server has many
// shards.
constexpr uint64_t kMostUnacknowledgedBytes = uint64_t{8} << 20;

// A longer payload travels in parts.
constexpr size_t kMostPayloadBytes = size_t{16} << 20;

// Parts of rows that are sent before the first of them is acknowledged.
constexpr int kPartsOnWay = 4;

// Changes between two rounds of checks.
constexpr uint64_t kChangesBetweenChecks = 1000;

// Rows whose hash takes too long under the shard's lock are not looked at.
constexpr uint64_t kMostCheckedRowBytes = uint64_t{4} << 20;

// Retries until a copy that does not answer is named in the log.
constexpr int kFailuresUntilNamed = 20;

}  // namespace

void CopySender::Begin(absl::Span<const ShardWorker> workers, const Collectives& collectives,
                       Slices* slices) {
  slices_ = slices;
  next_ = slices->begin();
  v1::ReplicaChange change;
  v1::CopyBegin& begin = *change.mutable_begin();
  for (const ShardWorker& worker : workers) SaveMember(worker, begin.add_workers());
  begin.set_slices(static_cast<uint32_t>(slices->size()));
  v1::CollectivesState state;
  collectives.Save(&state);
  const auto bytes = std::make_shared<std::string>(state.SerializeAsString());
  Payload payload{bytes};
  payload.Append({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
  Add(std::move(change), std::move(payload));
  copied_sequence_ = log_.last();
  for (const auto& [key, slice] : *slices) {
    const SliceMemory memory = slice->memory();
    bytes_to_copy_ += memory.parameters + memory.optimizer;
  }
}

void CopySender::Add(v1::ReplicaChange change, Payload payload) {
  if (is_given_up()) return;
  while (payload.size_bytes() > kMostPayloadBytes) {
    v1::ReplicaChange part;
    part.mutable_part();
    const size_t rest = payload.size_bytes() - kMostPayloadBytes;
    Append(part, payload.Subrange(0, kMostPayloadBytes));
    payload = payload.Subrange(kMostPayloadBytes, rest);
  }
  Append(change, std::move(payload));
}

void CopySender::Append(const v1::ReplicaChange& change, Payload payload) {
  ++records_;
  record_bytes_ += payload.size_bytes();
  log_.Append(change, std::move(payload));
}

void CopySender::NoteMembers(absl::Span<const ShardWorker> workers) {
  if (is_given_up()) return;
  v1::ReplicaChange change;
  v1::ShardMembers& members = *change.mutable_members();
  for (const ShardWorker& worker : workers) SaveMember(worker, members.add_workers());
  members.set_has_collectives(slices_->count(kCollectiveSlice) > 0);
  Add(std::move(change), Payload());
}

void CopySender::NoteProgress(WorkerId worker, Step next) {
  if (is_given_up()) return;
  v1::ReplicaChange change;
  change.mutable_collective_progress()->set_worker(worker.value());
  change.mutable_collective_progress()->set_next_step(next.value());
  Add(std::move(change), Payload());
}

void CopySender::NoteExchange(const ExchangeRequest& request) {
  if (is_given_up()) return;
  const bool is_collective = std::holds_alternative<Collective>(request.purpose);
  const bool is_copied = next_ == slices_->end() || request.slice < next_->first;
  if (!is_copied && !is_collective) return;
  v1::ReplicaChange change;
  change.set_table(request.slice.table.value());
  change.set_slice(request.slice.slice.value());
  *change.mutable_exchange()->mutable_request() = ToHeader(/*request_id=*/1, request);
  ExchangeRequest copy = request;
  Add(std::move(change), TakePayload(std::move(copy)));
}

bool CopySender::holds() const {
  if (is_given_up() || slices_ == nullptr) return false;
  if (!fault_.empty()) return true;
  return (next_ == slices_->end() && rows_ == nullptr) ||
         log_.unacknowledged_bytes() > kMostUnacknowledgedBytes;
}

void CopySender::Hold(std::optional<absl::Time> now, ReleasedReplies* replies) {
  if (!holds()) return;
  const auto is_error = [](const auto& reply) { return !reply.second.status.ok(); };
  ReleasedReplies held;
  ReleasedReplies errors;
  for (auto& reply : *replies) (is_error(reply) ? errors : held).push_back(std::move(reply));
  *replies = std::move(errors);
  if (held.empty()) return;
  for (auto& [done, reply] : held) reply.held_since = now;
  if (!log_.has_new()) {
    // Something must be sent after the request came.
    v1::ReplicaChange change;
    change.mutable_barrier();
    Add(std::move(change), Payload());
  }
  log_.Hold(std::move(held));
}

void CopySender::Stop(ReleasedReplies* released) {
  has_stopped_ = true;
  is_whole_ = false;
  rows_.reset();
  for (auto& [key, slice] : *slices_) slice->NoteChanges(nullptr, key);
  log_.ReleaseAll(released);
  log_.Acknowledge(log_.last(), released);
}

void CopySender::Cancel(const absl::Status& status, ReleasedReplies* released) {
  if (is_given_up()) return;
  ReleasedReplies held;
  Stop(&held);
  for (auto& [done, reply] : held) released->emplace_back(std::move(done), ErrorReply(status));
}

std::optional<CopySender::Sending> CopySender::TakeUnsent() {
  std::optional<ReplicaLog::Record> record;
  if (sends()) record = log_.TakeUnsent();
  if (!record.has_value()) {
    is_sending_ = false;
    return std::nullopt;
  }
  is_trying_ = failures_ > 0;
  Sending sending;
  sending.attempt = attempt_;
  sending.record.shard = shard_;
  sending.record.copy = target_.number;
  sending.record.sequence = record->sequence;
  sending.record.backup = target_.backup;
  sending.record.change = std::move(record->change);
  sending.record.bytes = std::move(record->payload);
  return sending;
}

bool CopySender::TakeAnswer(uint64_t attempt, const ExchangeReply& reply,
                            ReleasedReplies* released) {
  if (is_given_up() || !fault_.empty()) return false;
  if (reply.status.ok() || absl::IsOutOfRange(reply.status)) {
    if (reply.status.ok()) {
      failures_ = 0;
      is_trying_ = false;
    }
    log_.Acknowledge(reply.version, released);
    AfterAcknowledgement();
  }
  if (reply.status.ok()) return false;
  const bool may_pass = absl::IsUnavailable(reply.status) || absl::IsOutOfRange(reply.status) ||
                        absl::IsFailedPrecondition(reply.status);
  if (!may_pass) {
    fault_ = std::string(reply.status.message());
    if (fault_.empty()) fault_ = absl::StatusCodeToString(reply.status.code());
    if (!std::exchange(is_whole_, false)) Stop(released);
    return false;
  }
  if (attempt != attempt_) return false;
  ++attempt_;
  if (++failures_ == kFailuresUntilNamed) {
    LOG(WARNING) << "the copy of shard " << shard_
                 << " does not answer, and replies may wait for it: " << reply.status.message();
  }
  log_.Rewind();
  is_trying_ = false;
  is_waiting_ = true;
  return true;
}

void CopySender::AfterAcknowledgement() {
  if (log_.acknowledged() < copied_sequence_) return;
  if (rows_ != nullptr) return CopyRows();
  if (next_ != slices_->end()) return CopyNext();
  is_whole_ = true;
  CheckNext();
}

void CopySender::CopyNext() {
  auto& [key, slice] = *next_++;
  CopySlice(key, *slice);
  copied_sequence_ = log_.last();
}

void CopySender::CopySlice(SliceKey key, Slice& slice) {
  Slice::Copy copy = slice.BeginCopy();
  rows_ = std::move(copy.snapshot.rows_cut);
  rows_key_ = key;
  if (rows_ != nullptr) copy.rest.set_rows(rows_->row_count());
  Payload payload;
  v1::ReplicaChange change = EncodeCopy(key, std::move(copy), &payload);
  bytes_copied_ += payload.size_bytes();
  Add(std::move(change), std::move(payload));
  slice.NoteChanges(this, key);
}

void CopySender::CopyRows() {
  for (int i = 0; i < kPartsOnWay && rows_ != nullptr; ++i) {
    const absl::StatusOr<RowsCut::Part> part = rows_->CopySome();
    CHECK(part.ok()) << part.status();  // Only this copy uses the cut.
    Payload payload;
    v1::ReplicaChange change = EncodeRows(rows_key_, part->rows, part->is_last, &payload);
    bytes_copied_ += payload.size_bytes();
    Add(std::move(change), std::move(payload));
    if (part->is_last) rows_.reset();
  }
  copied_sequence_ = log_.last();
}

void CopySender::CheckNext() {
  if (checked_.has_value() && log_.acknowledged() < check_sequence_) return;
  if (!checked_.has_value() && log_.last() < next_check_) return;
  auto next = checked_.has_value() ? slices_->upper_bound(*checked_) : slices_->begin();
  if (!checked_.has_value()) least_version_ = std::numeric_limits<uint64_t>::max();
  while (next != slices_->end() && !IsChecked(*next->second)) ++next;
  if (next == slices_->end()) {
    if (checked_.has_value()) equal_at_version_ = least_version_;
    checked_.reset();
    next_check_ = log_.last() + kChangesBetweenChecks;
    return;
  }
  checked_ = next->first;
  least_version_ = std::min(least_version_, next->second->version());
  next->second->NoteHash();
  check_sequence_ = log_.last();
}

bool CopySender::IsChecked(const Slice& slice) {
  const SliceMemory memory = slice.memory();
  return memory.rows == 0 || memory.parameters + memory.optimizer <= kMostCheckedRowBytes;
}

CopyProgress CopySender::progress() const {
  CopyProgress progress;
  progress.number = target_.number;
  progress.is_whole = is_whole_;
  progress.fault = fault_;
  progress.bytes_to_copy = is_whole_ || has_stopped_ ? bytes_copied_ : bytes_to_copy_;
  progress.bytes_copied = bytes_copied_;
  progress.has_slices =
      absl::c_any_of(*slices_, [](const auto& entry) { return IsChecked(*entry.second); });
  progress.sent = log_.highest_sent();
  progress.acknowledged = log_.acknowledged();
  progress.records = records_;
  progress.record_bytes = record_bytes_;
  progress.records_unanswered = log_.unacknowledged();
  progress.bytes_unanswered = log_.unacknowledged_bytes();
  progress.held_replies = log_.held();
  progress.equal_at_version = equal_at_version_;
  return progress;
}

}  // namespace capstan
