#include "server/replication/replica_log.h"

#include <algorithm>

namespace capstan {

uint64_t ReplicaLog::Append(const v1::ReplicaChange& change, Payload payload) {
  Record& record = records_.emplace_back();
  record.sequence = ++last_;
  record.change = change.SerializeAsString();
  record.payload = std::move(payload);
  bytes_ += record.change.size() + record.payload.size_bytes();
  return last_;
}

void ReplicaLog::EndMoment() {
  v1::ReplicaChange mark;
  mark.set_has_more(true);
  for (size_t i = records_.size(); i > 0 && records_[i - 1].sequence > last_of_moment_; --i) {
    // Serialized messages one after the other are one message with the fields of both.
    if (records_[i - 1].sequence == last_) continue;
    records_[i - 1].change += mark.SerializeAsString();
    bytes_ += mark.ByteSizeLong();
  }
  last_of_moment_ = last_;
}

std::optional<ReplicaLog::Record> ReplicaLog::TakeUnsent() {
  if (!has_unsent()) return std::nullopt;
  const Record& record = records_[unsent_++];
  highest_sent_ = std::max(highest_sent_, record.sequence);
  return record;
}

void ReplicaLog::Acknowledge(uint64_t sequence, ReleasedReplies* released) {
  sequence = std::min(sequence, last_);
  while (!records_.empty() && records_.front().sequence <= sequence) {
    bytes_ -= records_.front().change.size() + records_.front().payload.size_bytes();
    records_.pop_front();
    if (unsent_ > 0) --unsent_;
  }
  acknowledged_ = std::max(acknowledged_, sequence);
  while (!held_.empty() && held_.front().sequence <= acknowledged_) {
    Release(std::move(held_.front()), released);
    held_.pop_front();
  }
}

void ReplicaLog::Hold(ReleasedReplies replies) {
  held_count_ += replies.size();
  held_.push_back({last_, std::move(replies)});
}

void ReplicaLog::Release(Held held, ReleasedReplies* released) {
  held_count_ -= held.replies.size();
  for (auto& reply : held.replies) released->push_back(std::move(reply));
}

void ReplicaLog::ReleaseAll(ReleasedReplies* released) {
  for (Held& held : held_) Release(std::move(held), released);
  held_.clear();
}

}  // namespace capstan
