#include "tests/benchmark/coordinator/simulated_member.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/membership/grpc_coordinator_client.h"

namespace capstan {
namespace {

constexpr char kHost[] = "the machine of all simulated members";
constexpr absl::Duration kRpcDeadline = absl::Seconds(60);

}  // namespace

SimulatedMember::SimulatedMember(Options options)
    : options_(std::move(options)),
      incarnation_(options_.index + 1),
      started_at_(options_.clock->Now()) {}

SimulatedMember::~SimulatedMember() { Vanish(); }

void SimulatedMember::Start() {
  CoordinatorOptions options;
  options.addresses = options_.coordinator;
  options.rpc_deadline = kRpcDeadline;
  absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> coordinator =
      ConnectToCoordinator(std::move(options), options_.clock, Random(incarnation_.value()));
  if (!coordinator.ok()) return options_.seen->OnLost(options_.index, coordinator.status());
  MutexLock lock(&mu_);
  coordinator_ = *std::move(coordinator);
  CallCoordinator(*coordinator_, v1::GetJobRequest(), [this](absl::StatusOr<v1::GetJobReply> job) {
    if (!job.ok()) return options_.seen->OnLost(options_.index, job.status());
    Register(job->job());
  });
}

void SimulatedMember::Vanish() {
  MemberAgent* agent = nullptr;
  std::unique_ptr<CoordinatorEndpoint> coordinator;
  {
    MutexLock lock(&mu_);
    has_vanished_ = true;
    agent = agent_.get();
    coordinator = std::move(coordinator_);
  }
  options_.seen->Leave(options_.index);
  if (agent != nullptr) agent->Stop();
}

void SimulatedMember::Register(const v1::JobSpec& job) {
  const auto registered = [this](absl::StatusOr<v1::RegisterReply> reply) {
    if (!reply.ok()) return options_.seen->OnLost(options_.index, reply.status());
    BeginHeartbeats(reply->id());
  };
  MutexLock lock(&mu_);
  if (has_vanished_) return;
  if (options_.is_server) {
    v1::RegisterServerRequest request;
    request.set_incarnation(incarnation_.value());
    request.set_address(absl::StrCat("server-", options_.index, ".", job.name(), ":4001"));
    request.set_host(kHost);
    return CallCoordinator(*coordinator_, std::move(request), registered);
  }
  v1::RegisterWorkerRequest request;
  request.set_incarnation(incarnation_.value());
  request.set_may_enter_late(true);
  request.mutable_tables()->Assign(options_.tables.begin(), options_.tables.end());
  request.set_host(kHost);
  CallCoordinator(*coordinator_, std::move(request), registered);
}

void SimulatedMember::BeginHeartbeats(uint32_t id) {
  id_ = id;
  MemberAgent::Options agent;
  agent.role = options_.is_server ? v1::HeartbeatRequest::SERVER : v1::HeartbeatRequest::WORKER;
  agent.id = id;
  agent.incarnation = incarnation_;
  agent.on_view = [this](const v1::JobView& view) { OnView(view); };
  agent.on_lost = [this](const absl::Status& status) {
    options_.seen->OnLost(options_.index, status);
  };
  agent.report = [this](v1::HeartbeatRequest& heartbeat) { AddReport(heartbeat); };
  if (!options_.is_server) agent.progress = [this] { return DoStep(); };
  MutexLock lock(&mu_);
  if (has_vanished_) return;
  agent_ = std::make_unique<MemberAgent>(std::move(agent), *coordinator_, *options_.clock);
  agent_->Start();
}

void SimulatedMember::OnView(const v1::JobView& view) {
  if (options_.is_server) {
    copies_.clear_whole();
    for (int shard = 0; shard < view.copies_size(); ++shard) {
      const v1::ShardCopy& copy = view.copies(shard);
      if (view.server_of_shard(shard) != id_ || !copy.fault().empty()) continue;
      v1::WholeCopy& whole = *copies_.add_whole();
      whole.set_shard(static_cast<uint32_t>(shard));
      whole.set_number(copy.number());
    }
  }
  options_.seen->OnView(options_.index, view);
}

void SimulatedMember::AddReport(v1::HeartbeatRequest& heartbeat) const {
  if (!options_.is_server) return;
  *heartbeat.mutable_copies() = copies_;
  heartbeat.mutable_load()->set_exchanges(1'000'000);
  heartbeat.mutable_load()->set_seconds(absl::ToDoubleSeconds(options_.clock->Now() - started_at_));
}

v1::Progress SimulatedMember::DoStep() {
  ++steps_done_;
  v1::Progress progress;
  progress.set_steps_done(steps_done_);
  progress.set_loss(1.0 / static_cast<double>(steps_done_));
  progress.set_samples(static_cast<uint64_t>(steps_done_) * 64);
  progress.set_bytes_pushed(static_cast<uint64_t>(steps_done_) * 100'000'000);
  progress.set_bytes_pulled(static_cast<uint64_t>(steps_done_) * 100'000'000);
  progress.set_seconds(absl::ToDoubleSeconds(options_.clock->Now() - started_at_));
  progress.set_seconds_waiting(progress.seconds() / 4);
  progress.set_seconds_sending(progress.seconds() / 8);
  progress.set_median_step_seconds(progress.seconds() / static_cast<double>(steps_done_));
  progress.set_device("cpu (simulated)");
  progress.set_transport("grpc");
  return progress;
}

}  // namespace capstan
