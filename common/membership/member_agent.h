#ifndef COMMON_MEMBERSHIP_MEMBER_AGENT_H_
#define COMMON_MEMBERSHIP_MEMBER_AGENT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// A coordinator whose answer takes longer was away meanwhile. When it is back, it gives all members
// new leases.
inline constexpr absl::Duration kLateAnswer = absl::Seconds(2);

// Keeps one registered member in its job: sends heartbeats one after the other, and passes on the
// views in their replies. Callbacks run one at a time, on the threads of replies and callers; a
// caller holds no lock of a callback. Thread-safe.
class MemberAgent {
 public:
  struct Options {
    // Required: the member, as registered.
    v1::HeartbeatRequest::Role role = v1::HeartbeatRequest::ROLE_UNSPECIFIED;
    uint32_t id = 0;
    Incarnation incarnation;
    uint32_t part = 0;  // v1::HeartbeatRequest::part
    // Required: acts on a view, newer than all before. On return, the view counts as acted on. No
    // heartbeat is sent meanwhile, so this must return within the lease. Nothing happens after a
    // final view (DONE or FAILED).
    absl::AnyInvocable<void(const v1::JobView&)> on_view;
    // Version of the newest view acted on. For members with another thread for acting on views;
    // that thread then calls ReportNow. Null: the view of the last on_view.
    absl::AnyInvocable<uint64_t()> acted_on;
    // Required: runs at most once, after a failed heartbeat. Nothing happens afterwards.
    absl::AnyInvocable<void(absl::Status)> on_lost;
    // Workers: the progress for a heartbeat. It is asked for after the report.
    absl::AnyInvocable<v1::Progress()> progress;
    // Optional: adds to a heartbeat the results of acting on a view.
    absl::AnyInvocable<void(v1::HeartbeatRequest&)> report;
  };

  // `coordinator` and `clock` must outlive the agent's Stop.
  MemberAgent(Options options, CoordinatorEndpoint& coordinator, Clock& clock);
  // Stops.
  ~MemberAgent();

  // Called once.
  void Start();
  // Sends a heartbeat now, without waiting for the reply to the last one.
  void ReportNow();
  // Does that. It may be called when the agent has stopped, or is gone: it then does nothing.
  std::function<void()> Reporter() const;
  // Afterwards no callback is running (unless it is the caller) and none will run.
  void Stop();

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with the open heartbeats.
};

// Tells the coordinator why a registered member cannot go on; the job then ends with this reason,
// unless a worker `came_after_end`, as in v1::ReportFailureRequest. Blocks until the reply. Does
// nothing for ABORTED: that error came from the coordinator.
void ReportFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role, uint32_t id,
                   Incarnation incarnation, const absl::Status& status, Clock& clock,
                   bool came_after_end = false, uint32_t part = 0);

// The same for a process that has not registered.
void ReportEarlyFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role,
                        Incarnation incarnation, const absl::Status& status, Clock& clock);

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_MEMBER_AGENT_H_
