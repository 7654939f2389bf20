#ifndef SERVER_SERVICE_NEXT_STEPS_H_
#define SERVER_SERVICE_NEXT_STEPS_H_

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "server/shard/shard_host.h"

namespace capstan {

// Where entering workers are to begin, as a server tells the coordinator. A step is found once for
// each placement of the shards, and told like an answer to a worker: once the copies of the shards
// have the pushes before it, which nobody sends again. Thread-safe.
class NextSteps {
 public:
  // Finds the steps for the entering workers of the view, and forgets those of others. The caller
  // tells what there is afterwards. If more comes later, `on_found` runs, on any thread. This
  // outlives the host and its links.
  void Follow(const v1::JobView& view, ShardHost& host, std::function<void()> on_found);

  // Adds what may be told.
  void Write(v1::HeartbeatRequest* heartbeat) const;

 private:
  using Process = std::pair<Incarnation, bool>;  // and whether the place was held

  mutable Mutex mu_;
  Epoch epoch_ ABSL_GUARDED_BY(mu_);
  std::map<Process, std::optional<v1::NextStep>> steps_ ABSL_GUARDED_BY(mu_);  // none: not yet
};

}  // namespace capstan

#endif  // SERVER_SERVICE_NEXT_STEPS_H_
