#include "worker/runtime/training_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {
namespace {

// Pulls its one layer, and can do no more.
class PullingEngine : public Engine {
 public:
  PullingEngine() {
    tables_.emplace_back().set_name("w");
    tables_[0].add_shape(8);
  }
  const std::string& device_name() const override { return name_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }
  ParameterMirror* mirror() override { return nullptr; }
  absl::Status LoadBatch(const Dataset&, absl::Span<const uint32_t>) override {
    return absl::OkStatus();
  }
  absl::Status RunStep(Step, ParameterStore& store) override { return RunForward(store); }
  absl::Status RunForward(ParameterStore& store) override { return store.WaitForLayer(0); }
  absl::StatusOr<BatchResult> Result() override { return BatchResult(); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const std::string name_ = "pulls";
  std::vector<v1::TableSpec> tables_;
};

// Answers one heartbeat with the first view. The test answers the next one.
class OneViewCoordinator : public CoordinatorEndpoint {
 public:
  explicit OneViewCoordinator(v1::JobView view) : view_(std::move(view)) {}
  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    if (!std::holds_alternative<v1::HeartbeatRequest>(request)) return;
    open_ = std::move(done);
    if (!std::exchange(has_answered_, true)) Answer(view_);
  }
  void Answer(const v1::JobView& view) {
    v1::HeartbeatReply reply;
    reply.set_view(view.SerializeAsString());
    std::exchange(open_, nullptr)(CoordinatorReply(reply));
  }

 private:
  const v1::JobView view_;
  bool has_answered_ = false;
  Callback<CoordinatorReply> open_;
};

// Two servers. The job's only shard is at one of them.
v1::JobView View(uint64_t epoch, uint32_t server_of_shard, const PullingEngine& engine) {
  v1::JobView view;
  view.set_version(epoch);
  view.set_phase(v1::TRAINING);
  view.set_epoch(epoch);
  view.add_server_of_shard(server_of_shard);
  *view.add_tables() = engine.tables()[0];
  for (uint32_t i = 0; i < 2; ++i) {
    v1::ServerInfo* const server = view.add_servers();
    server->set_server(i);
    server->set_address(absl::StrCat("host:", i));
    server->set_is_live(i == server_of_shard || epoch == 1);
  }
  view.add_workers()->set_is_live(true);
  return view;
}

// Refuses what comes, and notes that it came.
class RefusingEndpoint : public ParameterEndpoint {
 public:
  RefusingEndpoint(ServerId server, std::vector<ServerId>* asked)
      : server_(server), asked_(*asked) {}
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    asked_.push_back(server_);
    delivered();
    done(ErrorReply(absl::InvalidArgumentError("refused")));
  }

 private:
  const ServerId server_;
  std::vector<ServerId>& asked_;
};

TEST(TrainingSessionTest, ARoutingTableThatComesBeforeTheTrainingIsMadeCounts) {
  RealClock clock;
  JobSetup setup;
  const auto engine = std::make_shared<PullingEngine>();
  setup.engine = engine;
  setup.steps = 1;
  OneViewCoordinator coordinator(View(1, 0, *engine));
  v1::GetJobReply job;
  job.mutable_job()->mutable_cluster()->set_num_workers(1);
  job.mutable_job()->mutable_cluster()->set_shard_count(1);
  std::vector<ServerId> asked;
  TrainingSession::Options options;
  options.clock = &clock;
  options.coordinator = &coordinator;
  options.job = &job;
  options.setup = &setup;
  options.connect = [&asked](ServerId server, const ServerAddress&) {
    return std::make_unique<RefusingEndpoint>(server, &asked);
  };
  options.wrap = [&](std::unique_ptr<ParameterEndpoint> exchanges) {
    coordinator.Answer(View(2, 1, *engine));
    return exchanges;
  };
  EXPECT_EQ(TrainingSession(std::move(options)).Run(), absl::InvalidArgumentError("refused"));
  EXPECT_EQ(asked, std::vector<ServerId>{ServerId(1)});
}

}  // namespace
}  // namespace capstan
