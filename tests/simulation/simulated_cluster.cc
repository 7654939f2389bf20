#include "tests/simulation/simulated_cluster.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/codec/table_codecs.h"
#include "common/history/contract_log.h"
#include "common/job/job_properties.h"
#include "common/membership/retrying_coordinator.h"
#include "common/routing/job_view.h"
#include "common/routing/routing_table.h"
#include "tests/simulation/initial_values_endpoint.h"
#include "tests/simulation/known_rows.h"
#include "tests/simulation/push_ahead_endpoint.h"
#include "tests/simulation/restored_updates.h"
#include "tests/simulation/scripted_engine.h"
#include "tests/simulation/scripted_program.h"
#include "worker/runtime/worker.h"

namespace capstan {
namespace {

constexpr uint64_t kJob = 1;
// Until a launcher starts a worker again that has ended.
constexpr absl::Duration kUntilNextStart = absl::Milliseconds(10);

// Longer than any pause of a scenario, its leases, and the retries of both.
constexpr absl::Duration kSettle = absl::Seconds(30);
// Until the next workers come.
constexpr absl::Duration kBetweenRounds = absl::Milliseconds(200);
constexpr uint64_t kFirstServerIncarnation = 100'000;
constexpr uint64_t kFirstWorkerIncarnation = 200'000;
// A worker whose registration was lost goes on after this time at the latest.
constexpr absl::Duration kLongestLoss = absl::Seconds(3);
constexpr absl::Duration kBetweenComparisons = absl::Milliseconds(17);
// An exchange may be interrupted if it arrives within this time of its worker's pause.
constexpr absl::Duration kAroundPause = absl::Milliseconds(30);

std::vector<std::shared_ptr<const Codec>> PullCodecs(const Scenario& scenario) {
  std::vector<std::shared_ptr<const Codec>> codecs;
  for (const v1::TableSpec& table : scenario.tables) {
    const absl::StatusOr<TableCodecs> of_table =
        CodecsOfTable(scenario.job.codec(), table.name(), ElementCount(table),
                      SliceBytes(scenario.job.scheduler()));
    CHECK(of_table.ok()) << of_table.status();
    codecs.push_back(of_table->pull);
  }
  return codecs;
}

// Records on their way to a copy, which now and then says that it is of no use any more.
class LosingRecords : public ParameterEndpoint {
 public:
  LosingRecords(std::unique_ptr<ParameterEndpoint> copy, std::function<bool()> loses)
      : copy_(std::move(copy)), loses_(std::move(loses)) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    if (!loses_())
      return copy_->Exchange(std::move(request), std::move(delivered), std::move(done));
    delivered();
    done(ErrorReply(absl::DataLossError(CopyCheck::kWanted)));
  }

 private:
  const std::unique_ptr<ParameterEndpoint> copy_;
  const std::function<bool()> loses_;
};

uint32_t PortOf(const std::string& address) {
  uint32_t port = 0;
  CHECK(absl::SimpleAtoi(address.substr(address.find(':') + 1), &port)) << address;
  return port;
}

// Connects to the process that has an address at the time, as a channel does.
class Reconnecting : public ParameterEndpoint {
 public:
  using Connect = std::function<std::unique_ptr<ParameterEndpoint>()>;
  using Find = std::function<std::pair<const SimulatedProcess*, Connect>()>;

  explicit Reconnecting(Find find) : find_(std::move(find)) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    const auto [process, connect] = find_();
    std::unique_ptr<ParameterEndpoint>& connection = connections_[process];
    if (connection == nullptr) connection = connect();
    connection->Exchange(std::move(request), std::move(delivered), std::move(done));
  }

 private:
  const Find find_;
  std::map<const SimulatedProcess*, std::unique_ptr<ParameterEndpoint>> connections_;
};

// A server's way to the coordinator. Looks at heartbeats when they leave.
class WatchedHeartbeats : public CoordinatorEndpoint {
 public:
  using Watch = std::function<void(const v1::HeartbeatRequest& heartbeat)>;

  WatchedHeartbeats(std::unique_ptr<CoordinatorEndpoint> coordinator, Watch watch)
      : coordinator_(std::move(coordinator)), watch_(std::move(watch)) {}

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    if (const auto* heartbeat = std::get_if<v1::HeartbeatRequest>(&request)) watch_(*heartbeat);
    coordinator_->Call(std::move(request), std::move(done));
  }

 private:
  const std::unique_ptr<CoordinatorEndpoint> coordinator_;
  const Watch watch_;
};

bool HasCopies(const Scenario& scenario) { return scenario.job.cluster().replicas() > 1; }

bool HasCheckpoints(const Scenario& scenario) { return !scenario.job.checkpoint().dir().empty(); }

// Processes of another life have other incarnations. Lives differ in the upper bits of the seed.
Incarnation IncarnationOf(const Scenario& scenario, uint64_t process) {
  return Incarnation(process + (scenario.seed >> 40) * 1'000'000);
}

}  // namespace

SimulatedCluster::SimulatedCluster(const Scenario& scenario, SimulatedDisk* disk,
                                   RoundCheck* rounds)
    : scenario_(scenario),
      disk_(disk),
      rounds_(rounds),
      restored_(HasCheckpoints(scenario) ? disk->Newest() : ""),
      network_(scenario.network, scenario.seed),
      interruptions_(scenario.seed, /*stream=*/2),
      coordinators_(CoordinatorOptions()),
      copies_([this] {
        std::vector<const ShardHost*> hosts;
        for (const auto& server : servers_) hosts.push_back(server->server->host());
        return hosts;
      }) {}

SimulatedCoordinators::Options SimulatedCluster::CoordinatorOptions() {
  SimulatedCoordinators::Options options;
  options.scenario = &scenario_;
  options.disk = disk_;
  options.restored = restored_;
  options.job_fingerprint = kJob;
  options.log = &log_;
  options.world = &world_;
  options.network = &network_;
  return options;
}

SimulatedCluster::~SimulatedCluster() {
  // The destructors send messages to the other processes.
  coordinators_.Destroy();
  for (const auto& server : servers_) server->server.reset();
}

SimulationResult SimulatedCluster::Run() {
  absl::Time end = start_ + scenario_.limit;
  bool is_time_up = false;
  coordinators_.Start([this, &end, &is_time_up](JobOutcome outcome) {
    // Findings of the coordinator during the cleanup are not the job's end.
    if (is_time_up || result_.outcome.has_value()) return;
    coordinators_.EndLosses();
    result_.outcome = std::move(outcome);
    for (const auto& worker : workers_) {
      if (worker->program == nullptr || !worker->program->parameters_xxh3().has_value()) continue;
      result_.outcome->result.set_parameters_xxh3(*worker->program->parameters_xxh3());
    }
    end = world_.Now();
  });
  WriteHeader();
  for (uint32_t i = 1; i <= scenario_.job.cluster().num_servers(); ++i) StartServer(/*port=*/i);
  StartWorkers();
  for (const Fault& fault : scenario_.faults) {
    world_.RunAfter(fault.at, [this, &fault] { Befall(fault); });
  }
  for (const ServerLoss& loss : scenario_.server_losses) {
    world_.RunAfter(loss.at, [this, &loss] { LoseServer(loss); });
  }
  for (const LinkCut& cut : scenario_.cuts) {
    world_.RunAfter(cut.at, [this, &cut] { Cut(cut); });
  }
  if (HasCopies(scenario_)) CompareCopiesAgain();
  for (const ConsistencySetting& setting : scenario_.settings) {
    coordinators_.RunAfter(setting.at, [&setting](Coordinator& coordinator) {
      v1::SetConsistencyRequest request;
      *request.mutable_change() = setting.change;
      CallCoordinator(coordinator, request, [](const absl::StatusOr<v1::SetConsistencyReply>&) {});
    });
  }
  for (const absl::Duration at : scenario_.checkpoint_requests) {
    coordinators_.RunAfter(at, [](Coordinator& coordinator) {
      CallCoordinator(coordinator, v1::CheckpointRequest(),
                      [](const absl::StatusOr<v1::CheckpointReply>&) {});
    });
  }
  if (scenario_.cut_after_ends == 0) CutPowerLater();
  world_.RunUntil(start_ + scenario_.limit);
  if (disk_ != nullptr) disk_->EndLife();
  is_time_up = true;
  if (!result_.is_cut) {
    const v1::GetStatusReply status = coordinators_.Status();
    result_.is_registering = status.view().phase() == v1::REGISTERING;
    result_.servers_lost = status.servers_lost();
    result_.servers_replaced = status.servers_replaced();
  }
  CloseLog(end);
  if (HasCopies(scenario_) && !result_.is_cut) copies_.Compare();
  BuryAll();
  result_.wrong_copies = copies_.fault();
  result_.compared_copies = copies_.compared();
  result_.copies_made_again = copies_.made_again();
  result_.checked_replies = copies_.replies();
  result_.wrong_coordinators = coordinators_.fault();
  result_.take_overs = coordinators_.take_overs();
  result_.duration = end - start_;
  result_.messages = network_.messages();
  result_.residuals = std::move(codecs_.residuals);
  result_.wrong_values = std::move(codecs_.wrong_values);
  result_.copies = std::move(codecs_.copies);
  result_.records = log_.TakeRecords();
  return std::move(result_);
}

void SimulatedCluster::CloseLog(absl::Time end) {
  v1::HistoryRecord record;
  record.mutable_end()->set_time_ns(absl::ToUnixNanos(end));
  log_.Append(record);
  log_.Close();
}

void SimulatedCluster::CutPowerLater() {
  if (scenario_.power_cut < scenario_.limit) {
    world_.RunAfter(scenario_.power_cut, [this] { CutPower(); });
  }
}

void SimulatedCluster::CutPower() {
  // BuryAll ends workers, too.
  if (result_.outcome.has_value() || world_.Now() >= start_ + scenario_.limit) return;
  result_.is_cut = true;
  CloseLog(world_.Now());
  for (const auto* members : {&servers_, &workers_, &seconds_}) {
    for (const auto& member : *members) member->process.Kill();
  }
  coordinators_.Kill();
}

void SimulatedCluster::WriteHeader() {
  v1::HistoryRecord record;
  v1::HistoryHeader& header = *record.mutable_header();
  header.set_format_version(1);
  header.set_job(kJob);
  header.set_steps(scenario_.steps);
  header.set_update_scale(UpdateScaleOfJob(scenario_.job));
  header.set_num_workers(scenario_.job.cluster().num_workers());
  header.set_has_test_values(scenario_.has_test_values && scenario_.has_recorded_values);
  header.set_settle_ns(absl::ToInt64Nanoseconds(kSettle));
  v1::ConsistencySpec consistency = scenario_.job.consistency();
  if (!restored_.empty()) {
    const v1::CheckpointManifest& manifest = *disk_->Get(restored_).manifest;
    // As in the job's views.
    header.set_restored_step(std::max<int64_t>(manifest.step(), 1));
    consistency = manifest.consistency(0).consistency();
  }
  const bool has_test_values = header.has_test_values();
  log_.Append(record);
  *record.mutable_contract() = FirstContract(consistency);
  log_.Append(record);
  if (!restored_.empty() && has_test_values) WriteRestored();
}

void SimulatedCluster::WriteRestored() {
  for (const auto& [shard, file] : disk_->Get(restored_).files) {
    for (const SliceSnapshot& slice : file.snapshot.slices) {
      v1::HistoryRecord record;
      *record.mutable_restored() = UpdatesOf(slice, scenario_);
      log_.Append(record);
    }
  }
}

std::unique_ptr<SimulatedCluster::Member> SimulatedCluster::StartMember(uint64_t seed) {
  auto member = std::make_unique<Member>(&world_);
  RetryingCoordinator::Options options;
  options.address = "simulated";
  v1::AutoCodecs choice;
  choice.set_first_step(scenario_.auto_codecs_from);
  for (uint32_t table = 0; table < scenario_.tables.size(); ++table) choice.add_tables(table);
  member->coordinator = std::make_unique<RetryingCoordinator>(
      options, member->process, Random(scenario_.seed, seed + 1),
      coordinators_.Connect(&member->process, std::move(choice),
                            start_ + scenario_.auto_codecs_known_after));
  member->coordinator = std::make_unique<WatchedHeartbeats>(
      std::move(member->coordinator),
      [this](const v1::HeartbeatRequest& heartbeat) { coordinators_.NoteHeartbeat(heartbeat); });
  return member;
}

void SimulatedCluster::StartServer(uint32_t port) {
  const auto index = static_cast<uint32_t>(servers_.size());
  server_of_port_[port] = index;
  Member* const member = servers_.emplace_back(StartMember(1000 + 2 * index)).get();
  member->coordinator = std::make_unique<WatchedHeartbeats>(
      std::move(member->coordinator), [this, index](const v1::HeartbeatRequest& heartbeat) {
        if (!HasCopies(scenario_) || heartbeat.next_steps().empty()) return;
        const v1::JobView view = coordinators_.Status().view();
        copies_.CheckNextSteps(index, heartbeat, [&view](uint32_t worker) {
          const auto id = static_cast<int>(worker);
          return id < view.workers_size() && view.workers(id).holds_place();
        });
      });
  ParameterServer::Options options;
  options.clock = &member->process;
  options.coordinator = member->coordinator.get();
  options.incarnation = IncarnationOf(scenario_, kFirstServerIncarnation + index);
  options.end = &member->end;
  options.interruption = [this, member](Incarnation sender, absl::AnyInvocable<void()> go_on) {
    Interrupt(member->process, sender, std::move(go_on));
  };
  options.spawn = [member](absl::AnyInvocable<void()> body) {
    member->process.Spawn(std::move(body));
  };
  options.open_storage = [this, member] { return disk_->OpenForServer(&member->process); };
  options.connect_replica = [this, member](const std::string& address) {
    return std::make_unique<LosingRecords>(
        std::make_unique<Reconnecting>([this, member, address] {
          Member& other = *servers_[ServerAt(address)];
          return std::make_pair(&other.process, [this, member, &other] {
            return network_.Connect(&member->process, &other.process, &other.server->records());
          });
        }),
        [this] { return LosesCopy(); });
  };
  member->server = std::make_unique<ParameterServer>(options);
  member->process.Spawn([this, server = member->server.get(), index, port] {
    const absl::Status status = server->Run(
        [port](const v1::JobSpec&) { return ServerAddress{absl::StrCat("simulated:", port)}; });
    VLOG(1) << "server " << index << ": " << status;
    // The loss of the one in whose place it comes may not be known yet.
    const bool has_waited =
        index >= scenario_.job.cluster().num_servers() && (absl::IsResourceExhausted(status));
    if (has_waited && !result_.outcome.has_value() && !result_.is_cut) {
      world_.RunAfter(kUntilNextStart, [this, port] { StartServer(port); });
    }
  });
}

void SimulatedCluster::LoseServer(const ServerLoss& loss) {
  if (result_.outcome.has_value() || result_.is_cut) return;
  const v1::JobView view = coordinators_.Status().view();
  // What is not kept yet may be forgotten.
  if (!MayLoseServer(loss, view) || !MayLoseServer(loss, coordinators_.KeptView())) {
    world_.RunAfter(kUntilNextStart, [this, &loss] { LoseServer(loss); });
    return;
  }
  const v1::ServerInfo& lost = view.servers(static_cast<int>(loss.server));
  const Incarnation incarnation(lost.incarnation());
  const uint32_t port = PortOf(lost.address());
  for (uint32_t index = 0; index < servers_.size(); ++index) {
    if (IncarnationOf(scenario_, kFirstServerIncarnation + index) != incarnation) continue;
    StopServer(loss, incarnation, *servers_[index]);
    if (loss.kind != ServerLoss::Kind::kKill || !loss.is_noticed) continue;
    v1::AttendRequest broken;
    broken.set_role(v1::HeartbeatRequest::SERVER);
    broken.set_id(loss.server);
    broken.set_incarnation(incarnation.value());
    coordinators_.RunAfter(network_.options().latency,
                           [broken](Coordinator& coordinator) { coordinator.NoteBroken(broken); });
  }
  if (loss.returns_after > absl::ZeroDuration()) {
    world_.RunAfter(loss.returns_after, [this, &loss, port] {
      StartServer(loss.has_same_address ? port : static_cast<uint32_t>(servers_.size()) + 1);
    });
  }
}

bool SimulatedCluster::MayLoseServer(const ServerLoss& loss, const v1::JobView& view) const {
  const bool trains = view.phase() == v1::TRAINING || view.phase() == v1::EVALUATING;
  return trains && (!loss.waits_for_copies || HaveServersRecovered(view));
}

bool SimulatedCluster::HaveServersRecovered(const v1::JobView& view) const {
  const auto& copies = view.copies();
  const auto& servers = view.servers();
  return std::all_of(copies.begin(), copies.end(),
                     [](const v1::ShardCopy& copy) { return copy.is_whole(); }) &&
         std::none_of(servers.begin(), servers.end(), [this](const v1::ServerInfo& server) {
           return server.is_live() && lost_servers_.count(Incarnation(server.incarnation())) > 0;
         });
}

void SimulatedCluster::StopServer(const ServerLoss& loss, Incarnation incarnation, Member& server) {
  const absl::Time end = world_.Now() + loss.pause;
  lost_servers_.insert(incarnation);
  if (loss.kind == ServerLoss::Kind::kPause || loss.kind == ServerLoss::Kind::kUnheard) {
    // By then the coordinator has heard of it again, or has given it up.
    const absl::Duration lease = absl::Seconds(scenario_.job.membership().lease_seconds());
    world_.RunAt(end + lease, [this, incarnation] { lost_servers_.erase(incarnation); });
  }
  switch (loss.kind) {
    case ServerLoss::Kind::kKill:
      server.process.Kill();
      break;
    case ServerLoss::Kind::kPause:
      PauseFor(server.process, loss.pause);
      break;
    case ServerLoss::Kind::kUnheard:
      network_.Block(&server.process, &coordinators_.process(), end);
      network_.Block(&coordinators_.process(), &server.process, end);
      break;
    case ServerLoss::Kind::kAskToEnd:
      server.end.Ask();
      break;
  }
}

void SimulatedCluster::Interrupt(SimulatedProcess& server, Incarnation sender,
                                 absl::AnyInvocable<void()> go_on) {
  const absl::Time now = world_.Now();
  for (const Fault& fault : scenario_.faults) {
    const bool is_of_sender =
        fault.kind == Fault::Kind::kPauseWorker &&
        IncarnationOf(scenario_, kFirstWorkerIncarnation + fault.process) == sender;
    const absl::Time pause = start_ + fault.at;
    if (!is_of_sender || absl::AbsDuration(now - pause) > kAroundPause) continue;
    if (interruptions_.Bernoulli(0.5)) continue;
    // An answer then arrives before the end of the worker's pause.
    const double share = 0.7 + 0.3 * interruptions_.UniformFloat();
    server.RunAt(pause + share * fault.pause, std::move(go_on));
    return;
  }
  go_on();
}

void SimulatedCluster::StartWorker(uint32_t index) {
  Member* const member = workers_.emplace_back(StartMember(1'000'000 + 2 * index)).get();
  ++running_workers_;
  const auto& lost = scenario_.lost_registration;
  if (lost.has_value() && lost->process == index) {
    network_.LoseRegistration(&member->process, [this, member] { LoseRegistration(*member); });
  }
  if (scenario_.program.has_value() && scenario_.program->has_two_processes) {
    member->second = seconds_.emplace_back(StartMember(1'000'001 + 2 * index)).get();
    member->second->first = member;
  }
  member->process.Spawn([this, member, index] {
    Worker::Options options = WorkerOptions(*member, index);
    options.end = &member->end;
    options.on_registered = [this, member](WorkerId) { OnRegistered(*member); };
    std::shared_ptr<ScriptedProgram> program;
    if (HasScriptedPrograms(scenario_)) {
      program = std::make_shared<ScriptedProgram>(
          scenario_, index, &member->process,
          member->second == nullptr ? nullptr : &member->second->process,
          [member](absl::AnyInvocable<void()> body) { member->process.Spawn(std::move(body)); },
          [this](Step step, const auto& keys, const auto& rows) { NoteRows(step, keys, rows); },
          [this](Step step, int number, int64_t workers) { NoteReduced(step, number, workers); },
          [this](Step step, int64_t of_step) { NoteState(step, of_step); });
      options.on_registered = [this, member, index, program](WorkerId id) {
        program->SetWorker(id);
        if (member->second != nullptr) StartSecond(*member, index, id);
        OnRegistered(*member);
      };
    }
    options.prepare = ScriptedJobPreparer(
        scenario_, index,
        [this](WorkerId worker, Step step, SliceKey slice, const std::vector<float>& state) {
          result_.own_states.push_back({worker, step, slice, state});
        });
    if (member->second != nullptr) member->program = program;
    if (program != nullptr) {
      options.prepare = [program](const v1::JobSpec&, Clock*) { return program->Start(); };
    }
    const absl::Status status = Worker(std::move(options)).Run();
    if (program != nullptr) program->SetOutcome(status);
    // The processes of a worker end together.
    const bool has_second = member->second != nullptr && member->second->process.is_alive();
    if (!status.ok() && has_second) member->second->process.Kill();
    member->outcome = status;
    if (member->second != nullptr) CheckEndOfBoth(*member);
    VLOG(1) << "worker process " << index << ": " << status;
    // Two newcomers came for two places, of which one became free too late for the second of them.
    const bool has_waited = scenario_.replaces_all && absl::IsResourceExhausted(status);
    const bool has_left = scenario_.restarts_leavers && absl::IsCancelled(status);
    if ((has_waited || has_left) && !result_.outcome.has_value()) {
      ReplaceWorkerAfter(kUntilNextStart);
    }
    EndWorker(*member);
  });
}

void SimulatedCluster::StartSecond(Member& worker, uint32_t index, WorkerId id) {
  Member* const member = worker.second;
  member->process.Spawn([this, member, index, id, program = worker.program] {
    Worker::Options options = WorkerOptions(*member, index);
    options.part_of = {id, 1};
    member->recording.last_id = FirstExchangeOf(1);
    options.prepare = [program](const v1::JobSpec&, Clock*) { return program->SecondSetup(); };
    const absl::Status status = Worker(std::move(options)).Run();
    VLOG(1) << "second process of worker process " << index << ": " << status;
    program->SetSecondOutcome(status);
    member->outcome = status;
    CheckEndOfBoth(*member->first);
  });
}

void SimulatedCluster::CheckEndOfBoth(const Member& worker) {
  const std::optional<absl::Status>& of_second = worker.second->outcome;
  if (worker.outcome != absl::OkStatus() || !of_second.has_value() || of_second->ok()) return;
  // Else it is the end of the simulation.
  if (!worker.second->process.is_alive()) return;
  result_.wrong_end = absl::StrCat("both processes of a worker hear the job's end: one has heard ",
                                   of_second->ToString());
}

Worker::Options SimulatedCluster::WorkerOptions(Member& member, uint32_t index) {
  member.recording.clock = &member.process;
  member.recording.log = &log_;
  member.recording.has_values = scenario_.has_test_values && scenario_.has_recorded_values;
  member.recording.pull_codecs = PullCodecs(scenario_);
  Worker::Options options;
  options.clock = &member.process;
  options.coordinator = member.coordinator.get();
  options.incarnation = IncarnationOf(scenario_, kFirstWorkerIncarnation + index);
  options.connect = [this, &member](const v1::JobSpec&, ServerId, const ServerAddress& address) {
    return Connect(member, address.grpc);
  };
  options.wrap = [this, &member](const v1::JobSpec&, std::unique_ptr<ParameterEndpoint> exchanges) {
    return Wrap(member, std::move(exchanges));
  };
  return options;
}

void SimulatedCluster::NoteReduced(Step step, int number, int64_t workers) {
  const std::string operation =
      absl::StrCat("operations of all workers: operation ", number, " of step ", step.value());
  const auto [known, is_first] = reduced_.emplace(std::make_pair(step, number), workers);
  if (workers <= 0) {
    result_.wrong_operation = absl::StrCat(operation, " has values of another step");
  } else if (!is_first && known->second != workers) {
    result_.wrong_operation = absl::StrCat(operation, " has two results");
  }
  int64_t expected = 0;
  for (uint32_t worker = 0; worker < scenario_.job.cluster().num_workers(); ++worker) {
    if (scenario_.program->HasBatch(WorkerId(worker), step)) expected |= int64_t{1} << worker;
  }
  if (workers != expected) {
    result_.incomplete_operation =
        absl::StrCat(operation, " has values of the workers ", workers, ", expected ", expected);
  }
}

void SimulatedCluster::NoteRows(Step step, const std::vector<uint64_t>& keys,
                                const std::vector<float>& rows) {
  const bool is_end = step >= Step(scenario_.steps);
  if (is_end) result_.has_final_rows = true;
  if (rows == KnownRows(scenario_, step, keys)) return;
  result_.wrong_rows =
      absl::StrCat(is_end ? "final values" : "known rows", ": rows pulled at step ", step.value(),
                   " are not what a plain loop computes");
}

void SimulatedCluster::NoteState(Step step, int64_t of_step) {
  if (restored_.empty()) return;
  // Nothing is known of a checkpoint without a step, or whose cut came before the program's word.
  const bool is_known = scenario_.is_always_bsp && step > Step(0);
  const bool is_right = scenario_.is_always_bsp
                            ? of_step == step.value() || (!is_known && of_step < 0) ||
                                  (scenario_.pushes_ahead && of_step == step.value() + 1)
                            : of_step < 0 || of_step >= step.value();
  if (is_right) return;
  result_.wrong_state = absl::StrCat("state of a program: a worker goes on at step ", step.value(),
                                     " with the state of step ", of_step);
}

void SimulatedCluster::StartWorkers() {
  ++result_.rounds;
  const auto first = static_cast<uint32_t>(workers_.size());
  for (uint32_t i = 0; i < scenario_.job.cluster().num_workers(); ++i) StartWorker(first + i);
}

void SimulatedCluster::EndWorker(Member& worker) {
  if (std::exchange(worker.has_ended, true)) return;
  if (!result_.outcome.has_value()) ReplaceWorkerAfter(worker.replaced_after);
  if (++ended_workers_ == scenario_.cut_after_ends) CutPowerLater();
  if (--running_workers_ > 0) return;
  if (scenario_.job.stay()) world_.RunAfter(kBetweenRounds, [this] { BeginNextRound(); });
}

void SimulatedCluster::BeginNextRound() {
  if (result_.outcome.has_value() || result_.is_cut) return;
  if (result_.rounds < scenario_.rounds) return StartWorkers();
  coordinators_.Fail(kStopped);
}

std::unique_ptr<ParameterEndpoint> SimulatedCluster::Connect(Member& worker,
                                                             const std::string& address) {
  const size_t server = ServerAt(address);
  return network_.Connect(&worker.process, &servers_[server]->process, DoorOf(server));
}

size_t SimulatedCluster::ServerAt(const std::string& address) const {
  return server_of_port_.at(PortOf(address));
}

ParameterEndpoint* SimulatedCluster::DoorOf(size_t server) {
  ParameterEndpoint* const door = servers_.at(server)->server.get();
  if (!HasCopies(scenario_)) return door;
  std::unique_ptr<ParameterEndpoint>& watched = watched_[server];
  if (watched == nullptr) watched = copies_.Watch(door, server);
  return watched.get();
}

bool SimulatedCluster::LosesCopy() {
  const std::vector<absl::Duration>& losses = scenario_.copy_losses;
  if (lost_copies_ == losses.size() || world_.Now() < start_ + losses[lost_copies_]) return false;
  ++lost_copies_;
  return true;
}

void SimulatedCluster::CompareCopiesAgain() {
  copies_.Compare();
  if (result_.outcome.has_value() || result_.is_cut) return;
  world_.RunAfter(kBetweenComparisons, [this] { CompareCopiesAgain(); });
}

void SimulatedCluster::Cut(const LinkCut& cut) {
  const auto process = [this](uint32_t number) -> SimulatedProcess* {
    const uint32_t servers = scenario_.job.cluster().num_servers();
    if (number < servers) return &servers_[number]->process;
    number -= servers;
    return number < workers_.size() ? &workers_[number]->process : nullptr;
  };
  SimulatedProcess* const from = process(cut.from);
  SimulatedProcess* const to = process(cut.to);
  if (from == nullptr || to == nullptr) return;
  network_.Block(from, to, world_.Now() + cut.lasts);
}

std::unique_ptr<ParameterEndpoint> SimulatedCluster::Wrap(
    Member& worker, std::unique_ptr<ParameterEndpoint> exchanges) {
  if (scenario_.is_recorded) {
    exchanges = std::make_unique<RecordingEndpoint>(&worker.recording, std::move(exchanges));
  }
  if (scenario_.job.has_codec()) {
    CodecWatchEndpoint::Options options;
    const bool has_last_residual = scenario_.gradient_unit != 0 && !scenario_.job.codec().dgc();
    options.own_arrays = has_last_residual ? scenario_.own_arrays + 1 : 0;
    options.pull_codecs = PullCodecs(scenario_);
    options.is_bsp = scenario_.is_always_bsp;
    exchanges =
        std::make_unique<CodecWatchEndpoint>(std::move(options), &codecs_, std::move(exchanges));
  }
  if (scenario_.pushes_ahead) {
    exchanges = std::make_unique<PushAheadEndpoint>(scenario_.steps, std::move(exchanges));
  }
  if (!scenario_.program.has_value()) return exchanges;
  if (HasLocalSteps(scenario_)) exchanges = rounds_->Watch(std::move(exchanges));
  const size_t slice_size = SliceBytes(scenario_.job.scheduler()) / sizeof(float);
  return std::make_unique<InitialValuesEndpoint>(
      *scenario_.program, slice_size, &worker.process,
      [this, &worker] {
        // Not within a callback of the process.
        world_.RunAfter(absl::ZeroDuration(), [this, &worker] { LoseWorker0(worker); });
      },
      std::move(exchanges));
}

void SimulatedCluster::LoseWorker0(Member& worker) {
  // BuryAll ends processes that have been paused since.
  if (world_.Now() >= start_ + scenario_.limit || result_.is_cut) return;
  if (std::exchange(has_lost_worker_0_, true)) return;
  Kill(worker.first == nullptr ? worker : *worker.first);
  ReplaceWorkerAfter(scenario_.program->worker_0_replaced_after);
}

void SimulatedCluster::ReplaceWorkerAfter(absl::Duration delay) {
  if (delay == absl::ZeroDuration()) return;
  world_.RunAfter(delay, [this] { StartWorker(static_cast<uint32_t>(workers_.size())); });
}

void SimulatedCluster::LoseRegistration(Member& worker) {
  worker.process.Pause();
  unregistered_ = &worker;
  world_.RunAfter(scenario_.lost_registration->replaced_after, [this] {
    StartWorker(static_cast<uint32_t>(workers_.size()));
    successor_ = workers_.back().get();
  });
  // Nobody may come in its place.
  world_.RunAfter(kLongestLoss, [&worker] { worker.process.Resume(); });
}

void SimulatedCluster::OnRegistered(Member& worker) {
  if (successor_ != &worker) return;
  const LostRegistration& lost = *scenario_.lost_registration;
  world_.RunAfter(lost.returns_after, [this] { unregistered_->process.Resume(); });
  if (lost.successor_lives == absl::InfiniteDuration()) return;
  world_.RunAfter(lost.successor_lives, [&lost, &worker, this] {
    if (lost.is_successor_killed || !AskToEnd(worker)) Kill(worker);
  });
}

void SimulatedCluster::Befall(const Fault& fault) {
  // The process would be one in another's place, and none has come.
  if (fault.kind != Fault::Kind::kPauseCoordinator && fault.kind != Fault::Kind::kPauseServer &&
      fault.kind != Fault::Kind::kKillServer && fault.process >= workers_.size()) {
    return;
  }
  switch (fault.kind) {
    case Fault::Kind::kPauseCoordinator:
      PauseFor(coordinators_.process(), fault.pause);
      break;
    case Fault::Kind::kPauseServer:
      PauseFor(servers_.at(fault.process)->process, fault.pause);
      break;
    case Fault::Kind::kPauseWorker:
      PauseWorker(fault);
      break;
    case Fault::Kind::kKillServer:
      servers_.at(fault.process)->process.Kill();
      break;
    case Fault::Kind::kKillWorker:
      Kill(LatestWorker(fault.process));
      break;
    case Fault::Kind::kAskWorkerToEnd: {
      Member& worker = LatestWorker(fault.process);
      // Another process comes once it has left, which may take long.
      if (scenario_.replaces_all) worker.replaced_after = fault.replaced_after;
      // Before it is registered, it ends at once.
      if (!AskToEnd(worker)) Kill(worker);
      if (scenario_.replaces_all) return;
      break;
    }
  }
  ReplaceWorkerAfter(fault.replaced_after);
}

SimulatedCluster::Member& SimulatedCluster::LatestWorker(uint32_t process) {
  const size_t in_each_round = scenario_.job.cluster().num_workers();
  const size_t rounds_since =
      scenario_.job.stay() ? (workers_.size() - 1 - process) / in_each_round : 0;
  return *workers_.at(process + rounds_since * in_each_round);
}

bool SimulatedCluster::AskToEnd(Member& worker) {
  // One of two processes does not leave.
  return worker.second == nullptr && worker.end.Ask();
}

void SimulatedCluster::PauseWorker(const Fault& fault) {
  Member& worker = LatestWorker(fault.process);
  // One of two processes, or both.
  const uint64_t kind = worker.second == nullptr ? 0 : (scenario_.seed + fault.process) % 3;
  if (kind != 1) PauseFor(worker.process, fault.pause);
  if (kind != 0) PauseFor(worker.second->process, fault.pause);
}

void SimulatedCluster::Kill(Member& worker) {
  worker.process.Kill();
  if (worker.second != nullptr) worker.second->process.Kill();
  EndWorker(worker);
}

void SimulatedCluster::PauseFor(SimulatedProcess& process, absl::Duration pause) {
  process.Pause();
  world_.RunAfter(pause, [&process] { process.Resume(); });
}

void SimulatedCluster::BuryAll() {
  for (const auto* members : {&servers_, &workers_, &seconds_}) {
    for (const auto& member : *members) {
      member->process.Kill();
      member->process.Bury();
    }
  }
  // Those that keep their state would look at it again and again.
  if (scenario_.keeps_state) coordinators_.Kill();
  coordinators_.Bury();
  world_.RunUntil(world_.Now() + absl::Minutes(10));
  CHECK_EQ(world_.live_threads(), 0) << "a process of seed " << scenario_.seed << " does not end";
}

}  // namespace capstan
