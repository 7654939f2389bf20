#include "worker/runtime/register_worker.h"

#include <glog/logging.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/membership/await_reply.h"

namespace capstan {
namespace {

void StandBy(absl::Duration duration, Clock& clock) {
  OneShot<bool> is_over(&clock);
  clock.RunAfter(duration, [&is_over] { is_over.Set(true); });
  is_over.Wait();
}

}  // namespace

absl::StatusOr<WorkerId> RegisterWorker(const v1::JobSpec& job, Incarnation incarnation,
                                        const std::vector<v1::TableSpec>& tables,
                                        CoordinatorEndpoint& coordinator, Clock& clock) {
  v1::RegisterWorkerRequest request;
  request.set_incarnation(incarnation.value());
  request.set_may_enter_late(true);
  request.mutable_tables()->Assign(tables.begin(), tables.end());
  const absl::Duration interval = absl::Seconds(job.membership().heartbeat_seconds());
  // The lease runs from the answer to the last heartbeat, which the coordinator keeps for one
  // interval; one more passes until this worker has asked.
  const absl::Duration patience = absl::Seconds(job.membership().lease_seconds()) + 2 * interval;
  const absl::Time begin = clock.Now();
  bool has_told = false;
  while (true) {
    const absl::StatusOr<v1::RegisterReply> reply =
        AwaitReply(coordinator, &CoordinatorEndpoint::RegisterWorker, request, clock);
    if (reply.ok()) return WorkerId(reply->id());
    if (!absl::IsResourceExhausted(reply.status())) return reply.status();
    if (clock.Now() - begin >= patience) {
      return absl::ResourceExhaustedError(
          absl::StrCat("has waited ", absl::ToDoubleSeconds(patience),
                       " s for the place of a lost worker, whose lease would have run out by now: ",
                       reply.status().message()));
    }
    if (!std::exchange(has_told, true)) {
      LOG(INFO) << "waits up to " << patience
                << " for the place of a lost worker: " << reply.status().message();
    }
    StandBy(interval, clock);
  }
}

}  // namespace capstan
