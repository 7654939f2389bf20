#ifndef SERVER_SHARD_SHARD_MEMBERS_H_
#define SERVER_SHARD_SHARD_MEMBERS_H_

#include "proto/replica.pb.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// A worker of a shard, in a change for the shard's copy.
inline void SaveMember(const ShardWorker& worker, v1::ShardMember* saved) {
  saved->set_worker(worker.worker.value());
  saved->set_incarnation(worker.incarnation.value());
  saved->set_first_step(worker.first_step.value());
  saved->set_is_entering(worker.is_entering);
  saved->set_is_lost(worker.is_lost);
}

inline ShardWorker LoadMember(const v1::ShardMember& saved) {
  return {WorkerId(saved.worker()), Incarnation(saved.incarnation()), Step(saved.first_step()),
          saved.is_entering(), saved.is_lost()};
}

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_MEMBERS_H_
