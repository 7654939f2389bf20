#ifndef SERVER_SHARD_REPLICA_LINK_H_
#define SERVER_SHARD_REPLICA_LINK_H_

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/parameter_endpoint.h"

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

}  // namespace capstan

#endif  // SERVER_SHARD_REPLICA_LINK_H_
