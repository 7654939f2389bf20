#ifndef SERVER_REPLICATION_REPLICA_LOG_H_
#define SERVER_REPLICATION_REPLICA_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "common/exchange/payload.h"
#include "proto/replica.pb.h"
#include "server/slice/parked_pulls.h"

namespace capstan {

// The changes of a shard on their way to its copy, and the replies that wait for them. Each change
// has the next number of a sequence from 1 on. The copy acknowledges them in order. Not
// thread-safe: the shard's lock guards it.
class ReplicaLog {
 public:
  struct Record {
    uint64_t sequence = 0;
    std::string change;  // serialized
    Payload payload;
  };

  // Appends a change, and returns its number.
  uint64_t Append(const v1::ReplicaChange& change, Payload payload);
  // The number of the latest one. 0: there was none.
  uint64_t last() const { return last_; }

  // The changes since the last call were made in one moment. None of them was sent yet.
  void EndMoment();

  // The next one to send, which stays until it is acknowledged. None: all were sent.
  std::optional<Record> TakeUnsent();
  bool has_unsent() const { return unsent_ < records_.size(); }
  // Whether a change is there that was not sent, not even before a Rewind.
  bool has_new() const { return highest_sent_ < last_; }
  uint64_t highest_sent() const { return highest_sent_; }
  // Everything behind `acknowledged` is to be sent again.
  void Rewind() { unsent_ = 0; }

  // The copy has all changes up to `sequence`. Appends the replies that were due with them.
  void Acknowledge(uint64_t sequence, ReleasedReplies* released);
  uint64_t acknowledged() const { return acknowledged_; }

  // The replies are due once the copy has all changes so far.
  void Hold(ReleasedReplies replies);
  // All held replies: the copy is given up.
  void ReleaseAll(ReleasedReplies* released);

  size_t unacknowledged() const { return records_.size(); }
  uint64_t unacknowledged_bytes() const { return bytes_; }
  size_t held() const { return held_count_; }

 private:
  struct Held {
    uint64_t sequence;
    ReleasedReplies replies;
  };

  void Release(Held held, ReleasedReplies* released);

  uint64_t last_ = 0;
  uint64_t last_of_moment_ = 0;  // of EndMoment
  uint64_t acknowledged_ = 0;
  std::deque<Record> records_;  // behind acknowledged_
  size_t unsent_ = 0;           // the first of them that is to be sent
  uint64_t highest_sent_ = 0;
  uint64_t bytes_ = 0;
  std::deque<Held> held_;
  size_t held_count_ = 0;
};

}  // namespace capstan

#endif  // SERVER_REPLICATION_REPLICA_LOG_H_
