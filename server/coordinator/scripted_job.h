#ifndef SERVER_COORDINATOR_SCRIPTED_JOB_H_
#define SERVER_COORDINATOR_SCRIPTED_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "proto/coordinator_service.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/members/member_key.h"
#include "server/coordinator/members/restore_point.h"
#include "server/coordinator/state/memory_state_folder.h"

namespace capstan {

inline MemberKey Server(uint32_t id) { return {v1::HeartbeatRequest::SERVER, id}; }
inline MemberKey Worker(uint32_t id) { return {v1::HeartbeatRequest::WORKER, id}; }

// For tests: a coordinator on a fake clock, for a job with 2 servers, 2 replaceable workers, leases
// of 10 s and heartbeats of 0.5 s. No place is held. The test acts for the members. Not
// thread-safe.
class ScriptedJob {
 public:
  // Empty until the coordinator has answered.
  using Beat = std::shared_ptr<std::optional<absl::StatusOr<v1::HeartbeatReply>>>;

  static v1::JobSpec Job();
  // One table "w" of this shape.
  static std::vector<v1::TableSpec> Tables(std::vector<uint64_t> shape);

  // `checkpoints` is the job's folder for them. It goes on from `restored`, if given. `folder` is
  // that of its state, if it is kept.
  explicit ScriptedJob(const v1::JobSpec& job = Job(),
                       std::unique_ptr<CheckpointStorage> checkpoints = nullptr,
                       std::optional<RestorePoint> restored = {},
                       std::shared_ptr<MemoryStateFolder::Content> folder = nullptr);
  // Another coordinator takes over, as the first one has been killed. Returns that one, which does
  // not know it. `takes_over`: the first one may hang.
  std::unique_ptr<Coordinator> ReplaceCoordinator(
      std::unique_ptr<CheckpointStorage> checkpoints = nullptr, bool takes_over = false);
  // Why a coordinator of this job had to end; OK: none had to.
  const absl::Status& lost() const { return lost_; }

  FakeClock& clock() { return clock_; }
  Coordinator& coordinator() { return *coordinator_; }
  void DestroyCoordinator() { coordinator_.reset(); }

  absl::StatusOr<uint32_t> RegisterServer(uint64_t incarnation, const char* address = "host:4567");
  absl::StatusOr<uint32_t> RegisterWorker(uint64_t incarnation,
                                          const std::vector<v1::TableSpec>& tables = Tables({64}),
                                          uint32_t own_arrays = 0);
  // From `member`, with its incarnation of RegisterAll.
  Beat Heartbeat(MemberKey member, uint64_t view_version, v1::Progress progress = {});
  absl::Status ReportFailure(MemberKey member, const char* reason);
  absl::Status ReportEarlyFailure(Role role, const char* reason);
  absl::Status ReportResult(uint32_t worker, double test_accuracy = 0.5);
  v1::GetStatusReply Status();
  v1::JobView View() { return Status().view(); }

  // Everybody registers: PLACING.
  void RegisterAll();
  // Also, the servers have their shards: TRAINING.
  void StartTraining();
  // All `steps` done.
  Beat FinishSteps(uint32_t worker, int64_t steps = 5);
  // Only `alive` send heartbeats meanwhile.
  void PassTime(absl::Duration duration, const std::vector<MemberKey>& alive);

  static uint64_t IncarnationOf(MemberKey member) {
    return (member.role == v1::HeartbeatRequest::SERVER ? 100 : 200) + member.id;
  }

 private:
  void OpenState(Coordinator::Options& options);

  FakeClock clock_;
  const v1::JobSpec job_;
  const std::shared_ptr<MemoryStateFolder::Content> folder_;
  absl::Status lost_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_SCRIPTED_JOB_H_
