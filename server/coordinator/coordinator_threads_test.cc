#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/membership/member_agent.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// A whole job on real threads and the real clock, for ThreadSanitizer.
namespace capstan {
namespace {

constexpr int kSteps = 50;

// Keeps manifests. Guarded by the coordinator: it does one piece of work at a time.
class MemoryFolder : public CheckpointStorage {
 public:
  explicit MemoryFolder(std::vector<v1::CheckpointManifest>* manifests) : manifests_(*manifests) {}

  uint64_t token() const override { return 1; }
  std::string PathOf(const std::string& name) const override { return name; }
  absl::StatusOr<std::string> Create() override { return "checkpoint"; }
  absl::Status Publish(const std::string& name, const v1::CheckpointManifest& manifest) override {
    manifests_.push_back(manifest);
    return DecodeManifest(EncodeManifest(manifest), name).status();
  }
  void Discard(const std::string&) override {}
  absl::Status RemoveOld(uint32_t) override { return absl::OkStatus(); }

 private:
  std::vector<v1::CheckpointManifest>& manifests_;
};

// Registers on its own thread, follows the views, and acts as its role asks.
class ThreadMember {
 public:
  // `open_requests` for checkpoints outlives the coordinator.
  ThreadMember(Role role, uint64_t incarnation, Coordinator& coordinator, Clock& clock,
               std::atomic<int>& open_requests)
      : role_(role),
        incarnation_(incarnation),
        coordinator_(coordinator),
        clock_(clock),
        open_requests_(open_requests) {
    thread_ = std::thread([this] { Run(); });
  }
  ~ThreadMember() { thread_.join(); }

 private:
  void Run() {
    const uint32_t id = Register();
    MemberAgent::Options options;
    options.role = role_;
    options.id = id;
    options.incarnation = Incarnation(incarnation_);
    options.on_view = [this, id](const v1::JobView& view) { OnView(id, view); };
    if (role_ == v1::HeartbeatRequest::SERVER) {
      options.report = [this, id](v1::HeartbeatRequest& request) { Report(id, request); };
    }
    options.on_lost = [this](const absl::Status& status) {
      ADD_FAILURE() << status;
      ended_.Set(true);
    };
    options.progress = [this] {
      v1::Progress progress;
      progress.set_steps_done(steps_done_);
      progress.set_steps_total(kSteps);
      return progress;
    };
    MemberAgent agent(std::move(options), coordinator_, clock_);
    agent.Start();
    if (role_ == v1::HeartbeatRequest::WORKER) {
      training_.Wait();
      while (++steps_done_ < kSteps) {
        if (steps_done_ % 10 == 0) AskForCheckpoint();
        agent.ReportNow();
      }
      agent.ReportNow();
    }
    ended_.Wait();
  }

  void AskForCheckpoint() {
    ++open_requests_;
    CallCoordinator(coordinator_, v1::CheckpointRequest(),
                    [&open = open_requests_](const auto&) { --open; });
  }

  uint32_t Register() {
    OneShot<uint32_t> id(&clock_);
    const auto store = [&id](const absl::StatusOr<v1::RegisterReply>& reply) {
      id.Set(reply.value().id());
    };
    if (role_ == v1::HeartbeatRequest::SERVER) {
      v1::RegisterServerRequest request;
      request.set_incarnation(incarnation_);
      request.set_address("host:1");
      CallCoordinator(coordinator_, request, store);
    } else {
      v1::RegisterWorkerRequest request;
      request.set_incarnation(incarnation_);
      const auto tables = ScriptedJob::Tables({64});
      request.mutable_tables()->Add(tables.begin(), tables.end());
      CallCoordinator(coordinator_, request, store);
    }
    return id.Wait();
  }

  void OnView(uint32_t id, const v1::JobView& view) {
    if (view.phase() == v1::TRAINING) training_.Set(true);
    if (view.phase() == v1::EVALUATING && role_ == v1::HeartbeatRequest::WORKER &&
        view.evaluator() == id) {
      v1::ReportResultRequest result;
      result.set_worker(id);
      result.set_incarnation(incarnation_);
      CallCoordinator(coordinator_, result, [](const auto& reply) { EXPECT_TRUE(reply.ok()); });
    }
    if (view.phase() == v1::DONE || view.phase() == v1::FAILED) ended_.Set(true);
    MutexLock lock(&mu_);
    view_ = view;
  }

  // A server that says the first steps that a real one could hold back, and writes at once.
  void Report(uint32_t id, v1::HeartbeatRequest& request) {
    MutexLock lock(&mu_);
    v1::CheckpointPart& part = *request.mutable_checkpoint();
    part.set_number(view_.checkpoint().number());
    part.set_held_step(view_.phase() == v1::TRAINING ? 3 : kSteps);
    part.set_has_ended(!view_.checkpoint().name().empty());
    for (const v1::WorkerInfo& info : view_.workers()) {
      v1::WorkerSteps& worker = *part.add_workers();
      worker.set_worker(info.worker());
      worker.set_least(view_.checkpoint().step());
      worker.set_most(view_.checkpoint().step());
    }
    for (int shard = 0; shard < view_.server_of_shard_size(); ++shard) {
      const bool is_own = view_.server_of_shard(shard) == id;
      if (is_own) part.add_files()->set_shard(static_cast<uint32_t>(shard));
    }
  }

  const Role role_;
  const uint64_t incarnation_;
  Coordinator& coordinator_;
  Clock& clock_;
  std::atomic<int>& open_requests_;
  std::atomic<int64_t> steps_done_ = 0;
  OneShot<bool> training_{&clock_};
  OneShot<bool> ended_{&clock_};
  Mutex mu_;
  v1::JobView view_ ABSL_GUARDED_BY(mu_);  // the newest one
  std::thread thread_;
};

TEST(CoordinatorThreadsTest, ManyMembersOnTheirOwnThreadsFinishAJob) {
  RealClock clock;
  Coordinator::Options options;
  options.job = ScriptedJob::Job();
  options.job.mutable_cluster()->set_num_servers(3);
  options.job.mutable_cluster()->set_num_workers(5);
  options.job.mutable_membership()->set_heartbeat_seconds(0.02);
  std::vector<v1::CheckpointManifest> manifests;
  options.job.mutable_checkpoint()->set_dir("folder");
  options.job.mutable_checkpoint()->set_steps(10);
  options.checkpoints = std::make_unique<MemoryFolder>(&manifests);
  std::atomic<int> open_requests = 0;
  OneShot<JobOutcome> outcome(&clock);
  auto coordinator = std::make_unique<Coordinator>(std::move(options), clock);
  coordinator->OnEnd([&](JobOutcome end) { outcome.Set(std::move(end)); });

  std::vector<std::unique_ptr<ThreadMember>> members;
  for (uint64_t i = 0; i < 8; ++i) {
    const Role role = i < 3 ? v1::HeartbeatRequest::SERVER : v1::HeartbeatRequest::WORKER;
    members.push_back(std::make_unique<ThreadMember>(role, /*incarnation=*/1 + i, *coordinator,
                                                     clock, open_requests));
  }
  members.clear();
  const JobOutcome end = outcome.Wait();
  coordinator.reset();
  EXPECT_EQ(open_requests, 0);
  ASSERT_FALSE(manifests.empty());
  EXPECT_EQ(manifests.back().step(), kSteps) << end.last_status.checkpoint().error();
  EXPECT_TRUE(end.status.ok()) << end.status;
  for (const v1::Progress& progress : end.last_status.progress()) {
    EXPECT_EQ(progress.steps_done(), kSteps);
  }
}

}  // namespace
}  // namespace capstan
