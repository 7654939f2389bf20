#ifndef TESTS_SIMULATION_SIMULATED_COORDINATORS_H_
#define TESTS_SIMULATION_SIMULATED_COORDINATORS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/base/simulated_clock.h"
#include "common/history/history_log.h"
#include "common/membership/coordinator_endpoint.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/job_outcome.h"
#include "server/coordinator/members/restore_point.h"
#include "server/coordinator/state/file_state_store.h"
#include "server/coordinator/state/memory_state_folder.h"
#include "server/coordinator/state/state_store.h"
#include "tests/simulation/coordinator_check.h"
#include "tests/simulation/membership_recorder.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_disk.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

// The coordinators of one life of a job. If the job keeps its state, they are lost and others go
// on, as the scenario says. Members find them as over a real network: some late, some those that
// were replaced. Guarded by the baton.
class SimulatedCoordinators {
 public:
  struct Options {
    const Scenario* scenario = nullptr;
    SimulatedDisk* disk = nullptr;  // null: the job has no checkpoints
    std::string restored;           // name of the checkpoint; empty: the job begins anew
    uint64_t job_fingerprint = 0;
    HistoryLog* log = nullptr;
    SimulatedClock* world = nullptr;
    SimulatedNetwork* network = nullptr;
  };

  // The pointers outlive the coordinators.
  explicit SimulatedCoordinators(Options options);
  // To be called while the members' processes are there, when no thread runs any more. Coordinators
  // answer what is open.
  void Destroy();

  // Hears each coordinator that reports the end of the job.
  void Start(std::function<void(JobOutcome)> on_end);

  // A member's way to the coordinator of the time, as SimulatedNetwork::Connect.
  std::unique_ptr<CoordinatorEndpoint> Connect(SimulatedProcess* member, v1::AutoCodecs choice,
                                               absl::Time known_at);
  // What the coordinator of the time says, or has kept. Empty: nothing so far.
  v1::GetStatusReply Status() const;
  // The view that another coordinator would begin with; as in Status if no state is kept.
  v1::JobView KeptView() const;
  // On the process of the coordinator, at this time after now. It does nothing if none is there.
  void RunAfter(absl::Duration delay, std::function<void(Coordinator&)> run);
  // Fails the job, also if the coordinator of the time forgets it.
  void Fail(std::string reason);

  // The process of the newest coordinator.
  SimulatedProcess& process() { return lives_.back()->process; }
  // The job has ended: no coordinator is lost any more.
  void EndLosses() { has_ended_ = true; }
  // All processes die.
  void Kill();
  // The time is up: as SimulatedProcess::Bury, for dead processes. Others go on.
  void Bury();

  // As CoordinatorCheck's.
  const std::string& fault() const { return fault_.empty() ? check_.fault() : fault_; }
  // That took over from another one.
  int64_t take_overs() const { return check_.terms() > 0 ? check_.terms() - 1 : 0; }
  void NoteHeartbeat(const v1::HeartbeatRequest& heartbeat) {
    if (scenario_.keeps_state) check_.NoteHeartbeat(heartbeat);
  }

 private:
  // One coordinator and its process.
  struct Life {
    explicit Life(SimulatedClock* world) : process(world) {}
    SimulatedProcess process;
    uint64_t term = 0;
    // Work on the state, one after the other.
    std::deque<absl::AnyInvocable<void()>> saves;
    bool is_saving = false;
    std::unique_ptr<Coordinator> coordinator;  // null: it is not there yet
    std::unique_ptr<CoordinatorEndpoint> recorded;
    std::unique_ptr<CoordinatorEndpoint> checked;
    bool is_paused = false;
    bool is_lost = false;    // it has heard so
    bool is_broken = false;  // its connections are
  };
  class Door;

  // Of a coordinator without what another one has left.
  Coordinator::Options MakeOptions(Life& life);
  // The checkpoint from which the job goes on.
  std::optional<RestorePoint> Restored(const std::optional<SavedJob>& saved) const;
  void AddSave(Life& life, absl::AnyInvocable<void()> work);
  void Enter(Life& life, Coordinator::Options options);
  // Another coordinator begins.
  void Begin();
  void BeginAfter(absl::Duration delay);
  // On a thread of its process.
  void Open(Life& life);
  void TakeOver(Life& life, FileStateStore::Opened opened);
  void OnLost(Life& life, const absl::Status& status);
  void Lose(const CoordinatorLoss& loss);
  void LoseNow(const CoordinatorLoss& loss);
  // It is in the middle of an operation on its folder.
  void NoteOperation(const Life& life);
  void Resume(Life& life);
  void End(Life& life);
  // The newest one that is there and was not lost; null: there is none.
  Life* Newest() const;
  absl::Duration UpTo(absl::Duration most) { return random_.UniformFloat() * most; }

  const Options options_;
  const Scenario& scenario_;
  SimulatedClock& world_;
  SimulatedNetwork& network_;
  Random random_;
  const std::shared_ptr<MemoryStateFolder::Content> folder_ =
      std::make_shared<MemoryStateFolder::Content>();
  MembershipRecorder membership_;
  CoordinatorCheck check_;
  std::function<void(JobOutcome)> on_end_;
  std::vector<std::unique_ptr<Life>> lives_;
  std::vector<Door*> doors_;
  std::deque<const CoordinatorLoss*> at_operations_;  // that wait for one
  int beginning_ = 0;                                 // calls of Begin that are still to come
  std::string stop_reason_;
  bool has_ended_ = false;  // the job
  bool is_over_ = false;    // the simulation
  std::string fault_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_COORDINATORS_H_
