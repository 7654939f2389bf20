#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/membership/member_agent.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// A whole job on real threads and the real clock, for ThreadSanitizer.
namespace capstan {
namespace {

constexpr int kSteps = 50;

// Registers on its own thread, follows the views, and acts as its role asks.
class ThreadMember {
 public:
  ThreadMember(Role role, uint64_t incarnation, Coordinator& coordinator, Clock& clock)
      : role_(role), incarnation_(incarnation), coordinator_(coordinator), clock_(clock) {
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
      while (++steps_done_ < kSteps) agent.ReportNow();
      agent.ReportNow();
    }
    ended_.Wait();
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
      coordinator_.RegisterServer(request, store);
    } else {
      v1::RegisterWorkerRequest request;
      request.set_incarnation(incarnation_);
      const auto tables = ScriptedJob::Tables({64});
      request.mutable_tables()->Add(tables.begin(), tables.end());
      coordinator_.RegisterWorker(request, store);
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
      coordinator_.ReportResult(result, [](const auto& reply) { EXPECT_TRUE(reply.ok()); });
    }
    if (view.phase() == v1::DONE) ended_.Set(true);
  }

  const Role role_;
  const uint64_t incarnation_;
  Coordinator& coordinator_;
  Clock& clock_;
  std::atomic<int64_t> steps_done_ = 0;
  OneShot<bool> training_{&clock_};
  OneShot<bool> ended_{&clock_};
  std::thread thread_;
};

TEST(CoordinatorThreadsTest, ManyMembersOnTheirOwnThreadsFinishAJob) {
  RealClock clock;
  Coordinator::Options options;
  options.job = ScriptedJob::Job();
  options.job.mutable_cluster()->set_num_servers(3);
  options.job.mutable_cluster()->set_num_workers(5);
  options.job.mutable_membership()->set_heartbeat_seconds(0.02);
  Coordinator coordinator(std::move(options), clock);
  OneShot<JobOutcome> outcome(&clock);
  coordinator.OnEnd([&](JobOutcome end) { outcome.Set(std::move(end)); });

  std::vector<std::unique_ptr<ThreadMember>> members;
  for (uint64_t i = 0; i < 8; ++i) {
    const Role role = i < 3 ? v1::HeartbeatRequest::SERVER : v1::HeartbeatRequest::WORKER;
    members.push_back(
        std::make_unique<ThreadMember>(role, /*incarnation=*/1 + i, coordinator, clock));
  }
  members.clear();
  const JobOutcome end = outcome.Wait();
  EXPECT_TRUE(end.status.ok()) << end.status;
  for (const v1::Progress& progress : end.last_status.progress()) {
    EXPECT_EQ(progress.steps_done(), kSteps);
  }
}

}  // namespace
}  // namespace capstan
