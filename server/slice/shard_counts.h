#ifndef SERVER_SLICE_SHARD_COUNTS_H_
#define SERVER_SLICE_SHARD_COUNTS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/codec/codec_bytes.h"

namespace capstan {

// What slices hold. With buffers kept for reuse.
struct SliceMemory {
  // Bytes:
  uint64_t parameters = 0;
  uint64_t optimizer = 0;     // its state
  uint64_t accumulators = 0;  // gradients of open steps
  uint64_t copies = 0;        // of what workers have, encoded values, rows kept for a checkpoint

  uint64_t rows = 0;  // of sparse tables

  SliceMemory& operator+=(const SliceMemory& other) {
    parameters += other.parameters;
    optimizer += other.optimizer;
    accumulators += other.accumulators;
    copies += other.copies;
    rows += other.rows;
    return *this;
  }
};

// What shards have done, and what they hold now.
struct ShardCounts {
  // Exchanges let in: those of live workers for slices that are here.
  int64_t pushes = 0;  // without a pull
  int64_t pulls = 0;   // without a push
  int64_t push_pulls = 0;
  int64_t own_states = 0;   // of workers, and of optimizers
  int64_t collectives = 0;  // parts in collective operations
  int64_t initial_values = 0;
  CodecBytes received;  // gradients, states and initial values
  CodecBytes sent;      // values and states
  int64_t duplicate_pushes = 0;
  // Of exchanges; 0 without a clock.
  absl::Duration lock_wait;
  absl::Duration lock_held;
  int64_t exchanges() const {
    return pushes + pulls + push_pulls + own_states + collectives + initial_values;
  }

  // Now:
  int64_t parked = 0;
  SliceMemory memory;

  ShardCounts& operator+=(const ShardCounts& other) {
    pushes += other.pushes;
    pulls += other.pulls;
    push_pulls += other.push_pulls;
    own_states += other.own_states;
    collectives += other.collectives;
    initial_values += other.initial_values;
    received.Add(other.received);
    sent.Add(other.sent);
    duplicate_pushes += other.duplicate_pushes;
    lock_wait += other.lock_wait;
    lock_held += other.lock_held;
    parked += other.parked;
    memory += other.memory;
    return *this;
  }
};

}  // namespace capstan

#endif  // SERVER_SLICE_SHARD_COUNTS_H_
