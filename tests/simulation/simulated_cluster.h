#ifndef TESTS_SIMULATION_SIMULATED_CLUSTER_H_
#define TESTS_SIMULATION_SIMULATED_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/base/simulated_clock.h"
#include "common/history/history_log.h"
#include "common/history/recording_endpoint.h"
#include "common/tensor/slicing.h"
#include "server/coordinator/job_outcome.h"
#include "server/service/parameter_server.h"
#include "tests/simulation/codec_watch.h"
#include "tests/simulation/copy_check.h"
#include "tests/simulation/round_check.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/scripted_program.h"
#include "tests/simulation/simulated_coordinators.h"
#include "tests/simulation/simulated_disk.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_process.h"
#include "worker/runtime/worker.h"

namespace capstan {

// A worker's own state of a slice before its process' first step.
struct FirstOwnState {
  WorkerId worker;
  Step step;
  SliceKey slice;
  std::vector<float> state;
};

// The reason of the end of a job that stays.
inline constexpr char kStopped[] = "the job was stopped";

struct SimulationResult {
  std::vector<v1::HistoryRecord> records;
  std::optional<JobOutcome> outcome;  // none: the job did not end in time
  bool is_registering = false;        // it did not, and still waited for registrations
  absl::Duration duration;            // virtual, to the end of the job
  uint64_t messages = 0;
  bool is_cut = false;  // all processes have died in a power cut
  int64_t rounds = 0;   // that workers have come for, in a job that stays
  std::vector<FirstOwnState> own_states;
  std::vector<FinalResidual> residuals;  // of jobs with a gradient_unit that may write checkpoints
  // As in CodecWatch:
  std::string wrong_values;
  std::map<CodecWatch::VersionOfSlice, std::vector<float>> copies;
  // What is wrong with a collective operation; and what is wrong if all workers have lived.
  std::string wrong_end;  // what is wrong with the outcome of a worker of two processes
  std::string wrong_operation;
  std::string incomplete_operation;
  // What is wrong with the state of a worker's program, or with rows of a job with has_known_end,
  // if all workers have lived.
  std::string wrong_state;
  std::string wrong_rows;
  bool has_final_rows = false;  // of AllRowKeys, pulled at the end
  // As in CopyCheck:
  std::string wrong_copies;
  int64_t compared_copies = 0;
  int64_t copies_made_again = 0;
  int64_t checked_replies = 0;
  int64_t servers_lost = 0;
  int64_t servers_replaced = 0;
  // As in SimulatedCoordinators:
  std::string wrong_coordinators;
  int64_t take_overs = 0;
};

// A whole job in virtual time: the real coordinator, servers and workers in one program. One thread
// runs at a time. Only the workers' computation is scripted. Used once, by one thread.
class SimulatedCluster {
 public:
  // One life of the job of `scenario`. If it has checkpoints, it goes on from the newest one on
  // `disk`. All outlive the cluster; without checkpoints, `disk` may be null, and without local
  // steps `rounds`, which checks them.
  explicit SimulatedCluster(const Scenario& scenario, SimulatedDisk* disk = nullptr,
                            RoundCheck* rounds = nullptr);
  ~SimulatedCluster();

  // The same scenario has the same result, byte for byte.
  SimulationResult Run();

 private:
  // A process with its server or worker.
  struct Member {
    explicit Member(SimulatedClock* world) : process(world) {}
    SimulatedProcess process;
    std::unique_ptr<CoordinatorEndpoint> coordinator;
    std::unique_ptr<ParameterServer> server;  // of a server
    RecordingEndpoint::Recording recording;   // of a worker
    EndRequest end;
    bool has_ended = false;         // of a worker: its process has
    absl::Duration replaced_after;  // of a worker, from its end on; 0: it is not
    // If the worker is two processes, each names the other one. They die together.
    Member* second = nullptr;
    Member* first = nullptr;
    std::optional<absl::Status> outcome;       // of each of the two, once it has one
    std::shared_ptr<ScriptedProgram> program;  // of the first one
  };

  SimulatedCoordinators::Options CoordinatorOptions();
  void WriteHeader();
  // Writes the updates in the checkpoint from which the job goes on.
  void WriteRestored();
  void CutPowerLater();
  void CutPower();
  void CloseLog(absl::Time end);
  std::unique_ptr<Member> StartMember(uint64_t seed);
  // With a port that no server has, or had before.
  void StartServer(uint32_t port);
  // As the scenario says; later, if it is to wait for copies.
  void LoseServer(const ServerLoss& loss);
  void StopServer(const ServerLoss& loss, Incarnation incarnation, Member& server);
  bool MayLoseServer(const ServerLoss& loss, const v1::JobView& view) const;
  // All copies are whole, and the coordinator knows of all losses so far.
  bool HaveServersRecovered(const v1::JobView& view) const;
  // If a pause of worker process `sender` begins about now, sometimes stops the server's thread
  // before a shard's lock for as long. Meanwhile another process can take the worker's place.
  void Interrupt(SimulatedProcess& server, Incarnation sender, absl::AnyInvocable<void()> go_on);
  void StartWorker(uint32_t index);
  // The process that exchanges some of the tables of a worker, which has this id.
  void StartSecond(Member& worker, uint32_t index, WorkerId id);
  Worker::Options WorkerOptions(Member& member, uint32_t index);
  void PauseWorker(const Fault& fault);
  // False: it is to be killed.
  bool AskToEnd(Member& worker);
  // One of a worker's two processes has an outcome.
  void CheckEndOfBoth(const Member& worker);
  void StartWorkers();
  // A worker has the result of a collective operation, as ScriptedProgram::ReducedCallback.
  void NoteReduced(Step step, int number, int64_t workers);
  // A worker's program begins, as ScriptedProgram::StateCallback.
  void NoteState(Step step, int64_t of_step);
  void NoteRows(Step step, const std::vector<uint64_t>& keys, const std::vector<float>& rows);
  // In a job that stays, other workers come when all have ended. After the last round the job ends.
  void EndWorker(Member& worker);
  void BeginNextRound();
  // The process that listens at `address`.
  size_t ServerAt(const std::string& address) const;
  // Connects a worker to the server at `address`.
  std::unique_ptr<ParameterEndpoint> Connect(Member& worker, const std::string& address);
  // Records the worker's exchanges and omits pulls, according to the scenario.
  std::unique_ptr<ParameterEndpoint> Wrap(Member& worker,
                                          std::unique_ptr<ParameterEndpoint> exchanges);
  // The process of worker 0, at a time that the program knows. Once.
  void LoseWorker0(Member& worker);
  // 0: does nothing.
  void ReplaceWorkerAfter(absl::Duration delay);
  // The scenario's LostRegistration befalls the worker.
  void LoseRegistration(Member& worker);
  // The worker has its id.
  void OnRegistered(Member& worker);
  void Befall(const Fault& fault);
  void Cut(const LinkCut& cut);
  // The server's endpoint for workers: watched, if there are copies.
  ParameterEndpoint* DoorOf(size_t server);
  void CompareCopiesAgain();
  // Whether a copy is to be lost now.
  bool LosesCopy();
  // The worker process of this number in the newest round. In a job that stays, others may have
  // come in its place.
  Member& LatestWorker(uint32_t process);
  void Kill(Member& worker);
  void PauseFor(SimulatedProcess& process, absl::Duration pause);
  void BuryAll();

  const Scenario& scenario_;
  SimulatedDisk* const disk_;
  RoundCheck* const rounds_;
  const std::string restored_;  // name of the checkpoint; empty: the job begins anew
  SimulatedClock world_;
  const absl::Time start_ = world_.Now();
  MemoryHistoryLog log_;
  SimulatedNetwork network_;
  Random interruptions_;
  SimulatedCoordinators coordinators_;
  std::vector<std::unique_ptr<Member>> servers_;  // processes, in order of start
  std::map<uint32_t, size_t> server_of_port_;     // the latest
  std::vector<std::unique_ptr<Member>> seconds_;  // of workers
  std::vector<std::unique_ptr<Member>> workers_;
  int running_workers_ = 0;  // processes
  uint32_t ended_workers_ = 0;
  bool has_lost_worker_0_ = false;
  Member* unregistered_ = nullptr;  // the worker with the LostRegistration
  Member* successor_ = nullptr;     // the one in its place
  CodecWatch codecs_;
  CopyCheck copies_;
  size_t lost_copies_ = 0;
  std::set<Incarnation> lost_servers_;  // without those whose pause is over
  std::map<size_t, std::unique_ptr<ParameterEndpoint>> watched_;  // servers
  std::map<std::pair<Step, int>, int64_t> reduced_;               // results of operations
  SimulationResult result_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_CLUSTER_H_
