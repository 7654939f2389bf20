#ifndef COMMON_MEMBERSHIP_MEMBER_AGENT_H_
#define COMMON_MEMBERSHIP_MEMBER_AGENT_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Keeps one registered member in its job: sends heartbeats one after the other, and hands on what
// they bring. Its callbacks run one at a time, on the threads of the coordinator's answers or of a
// caller, who must not hold a lock that a callback takes. Thread-safe.
class MemberAgent {
 public:
  struct Options {
    // Required: who the member is, as registered.
    v1::HeartbeatRequest::Role role = v1::HeartbeatRequest::ROLE_UNSPECIFIED;
    uint32_t id = 0;
    Incarnation incarnation;
    // Required: acts on a view, newer than all before. The coordinator takes it as acted on when
    // this has returned; it should return within the lease, as no heartbeat is sent meanwhile.
    // After a final view (DONE or FAILED) nothing more happens.
    absl::AnyInvocable<void(const v1::JobView&)> on_view;
    // Version of the newest view acted on, for a member whose on_view only passes views on to a
    // thread that acts on them; it then calls ReportNow. Null: the view of the last on_view.
    absl::AnyInvocable<uint64_t()> acted_on;
    // Required: runs at most once, when a heartbeat has failed; then nothing more happens.
    absl::AnyInvocable<void(absl::Status)> on_lost;
    // Workers: what to report in a heartbeat.
    absl::AnyInvocable<v1::Progress()> progress;
    // Servers: adds to a heartbeat what the member has to say of the view that it has acted on.
    absl::AnyInvocable<void(v1::HeartbeatRequest&)> report;
  };

  // `coordinator` and `clock` must outlive the agent's Stop.
  MemberAgent(Options options, CoordinatorEndpoint& coordinator, Clock& clock);
  // Stops.
  ~MemberAgent();

  // Called once.
  void Start();
  // Sends the progress now, without waiting until the coordinator has answered the last heartbeat.
  void ReportNow();
  // Afterwards no callback is running (unless it is the caller) and none will run.
  void Stop();

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with the open heartbeats.
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_MEMBER_AGENT_H_
