#ifndef SERVER_SHARD_COPY_SENDER_H_
#define SERVER_SHARD_COPY_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/buffer_pool.h"
#include "common/tensor/slicing.h"
#include "server/replication/replica_log.h"
#include "server/shard/collectives.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice.h"
#include "server/slice/slice_changes.h"
#include "server/sparse/rows_cut.h"

namespace capstan {

// The way of a shard's changes to the server with its copy. Thread-safe.
class ReplicaLink {
 public:
  virtual ~ReplicaLink() = default;

  // Records arrive in the order of the calls, unless one is lost. `done` runs once, on any thread.
  virtual void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) = 0;
  // Runs `call` later, unless the link ends before.
  virtual void RunAfter(absl::Duration delay, absl::AnyInvocable<void()> call) = 0;
};

// Where a shard's copy is made.
struct CopyTarget {
  uint64_t number = 0;          // v1::ShardCopy::number
  Incarnation backup;           // the life of the server that has it
  ReplicaLink* link = nullptr;  // Required; outlives the shard
};

// How far a copy is.
struct CopyProgress {
  uint64_t number = 0;
  bool is_whole = false;
  std::string fault;  // why it is of no use any more; empty: it is
  uint64_t bytes_to_copy = 0;
  uint64_t bytes_copied = 0;
  uint64_t sent = 0;          // the latest change that was sent
  uint64_t acknowledged = 0;  // up to this one
  uint64_t records = 0;
  uint64_t record_bytes = 0;
  uint64_t records_unanswered = 0;
  uint64_t bytes_unanswered = 0;
  uint64_t held_replies = 0;
  uint64_t equal_at_version = 0;  // of slices that were looked at; 0: not yet
  bool has_slices = false;        // that are looked at, so that there is an equal_at_version
};

// A shard's copy, as its primary has it: the slices are sent one after the other, each as it is at
// one moment, and from then on its changes. Once all are there, no reply leaves before the copy has
// every change before it, and one that was sent after the request came. If the copy fails then,
// replies wait until GiveUp: first nobody must be able to take it for whole. Not thread-safe: the
// shard's lock guards it.
class CopySender : public ChangeSink {
 public:
  using Slices = std::map<SliceKey, std::unique_ptr<Slice>>;

  // `earlier`: the shard's copy until now, whose counts go on; null: there was none.
  CopySender(CopyTarget target, ShardId shard, BufferPool* pool, const CopySender* earlier)
      : target_(target),
        shard_(shard),
        pool_(*pool),
        records_(earlier == nullptr ? 0 : earlier->records_),
        record_bytes_(earlier == nullptr ? 0 : earlier->record_bytes_) {}

  // Sends what is no slice's, then the first slice. `slices` stay.
  void Begin(absl::Span<const ShardWorker> workers, const Collectives& collectives, Slices* slices);

  // What the shard changes beside its slices.
  void NoteMembers(absl::Span<const ShardWorker> workers);
  void NoteProgress(WorkerId worker, Step next);
  // An exchange that is no step. Of a slice that is not copied yet it is not needed.
  void NoteExchange(const ExchangeRequest& request);

  void Add(v1::ReplicaChange change, Payload payload) override;
  BufferPool& pool() override { return pool_; }

  // Whether replies wait for the copy.
  bool holds() const;
  // Takes the replies that are OK out, and keeps them until they are due. `now`: of a trace.
  void Hold(std::optional<absl::Time> now, ReleasedReplies* replies);
  // The copy is not wanted any more: no reply waits, and slices note nothing more.
  void GiveUp(ReleasedReplies* released) { Stop(released); }
  // Answers all that waits with `status`, and sends nothing more.
  void Cancel(const absl::Status& status, ReleasedReplies* released);
  bool is_given_up() const { return has_stopped_; }
  bool is_being_made() const { return !is_whole_ && fault_.empty() && !has_stopped_; }

  // The copy's number: the caller is to send what there is, with TakeUnsent, until this is null.
  // Nobody else does it meanwhile, so that records stay in order. 0: there is nothing to do.
  uint64_t BeginSending() {
    log_.EndMoment();
    if (!sends() || !log_.has_unsent() || std::exchange(is_sending_, true)) return 0;
    return target_.number;
  }
  struct Sending {
    ReplicaRecord record;
    uint64_t attempt = 0;
  };
  std::optional<Sending> TakeUnsent();

  // The answer to a record. True: what was not acknowledged is to be sent again, after a while and
  // a Retry.
  bool TakeAnswer(uint64_t attempt, const ExchangeReply& reply, ReleasedReplies* released);
  void Retry() { is_waiting_ = false; }

  const CopyTarget& target() const { return target_; }
  CopyProgress progress() const;
  // The sequence up to which the copy has everything, and the latest one.
  uint64_t acknowledged() const { return log_.acknowledged(); }
  uint64_t latest() const { return log_.last(); }

 private:
  bool sends() const { return !is_waiting_ && !is_trying_ && fault_.empty() && !has_stopped_; }
  void Append(const v1::ReplicaChange& change, Payload payload);
  void Stop(ReleasedReplies* released);
  static bool IsChecked(const Slice& slice);
  void CopyNext();
  void CopySlice(SliceKey key, Slice& slice);
  void CopyRows();
  // Sends the hash of the next slice, when it is time.
  void CheckNext();
  void AfterAcknowledgement();

  const CopyTarget target_;
  const ShardId shard_;
  BufferPool& pool_;
  ReplicaLog log_;
  Slices* slices_ = nullptr;
  Slices::iterator next_;          // the first that is not copied yet
  std::shared_ptr<RowsCut> rows_;  // of the one before it, still to be copied; null: there are none
  SliceKey rows_key_;
  uint64_t copied_sequence_ = 0;  // of the last record of the latest copied slice
  bool is_whole_ = false;
  std::string fault_;
  bool has_stopped_ = false;
  uint64_t attempt_ = 0;
  bool is_sending_ = false;
  bool is_waiting_ = false;  // until Retry
  bool is_trying_ = false;   // after a failure one record is sent, and no other until it is taken
  int failures_ = 0;         // since the last acknowledgement
  uint64_t records_;
  uint64_t record_bytes_;
  uint64_t bytes_to_copy_ = 0;
  uint64_t bytes_copied_ = 0;

  // The round of checks.
  std::optional<SliceKey> checked_;  // on its way
  uint64_t check_sequence_ = 0;
  uint64_t next_check_ = 0;  // not before this sequence
  uint64_t least_version_ = 0;
  uint64_t equal_at_version_ = 0;
};

}  // namespace capstan

#endif  // SERVER_SHARD_COPY_SENDER_H_
