// Servers that are lost, leave and come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"
#include "server/coordinator/job_outcome.h"
#include "server/coordinator/job_state.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

struct Options {
  uint32_t servers = 2;
  uint32_t replicas = 2;
  bool has_output = false;
};

v1::JobSpec Job(const Options& options) {
  v1::JobSpec job;
  job.mutable_cluster()->set_num_servers(options.servers);
  job.mutable_cluster()->set_num_workers(2);
  job.mutable_cluster()->set_shard_count(4);
  job.mutable_cluster()->set_replicas(options.replicas);
  job.mutable_scheduler()->set_slice_bytes(64);
  job.mutable_membership()->set_replace_seconds(0);
  if (options.has_output) job.set_output("model.safetensors");
  return job;
}

v1::RegisterServerRequest ServerProcess(uint64_t incarnation, const std::string& address) {
  v1::RegisterServerRequest request;
  request.set_incarnation(incarnation);
  request.set_address(address);
  request.set_host(address);
  return request;
}

v1::RegisterWorkerRequest WorkerProcess(uint64_t incarnation) {
  v1::RegisterWorkerRequest request;
  request.set_incarnation(incarnation);
  request.add_tables()->set_name("w");
  request.mutable_tables(0)->add_shape(64);
  request.set_may_enter_late(true);
  return request;
}

// A job in training. It has 4 shards with a slice of 64 bytes each. Server i has the address
// "host-i:1" and first the incarnation 100 + i; worker i has 200 + i.
class Training {
 public:
  explicit Training(const Options& options = {}) : job_(Job(options)), state_(job_, clock_) {
    for (uint32_t id = 0; id < options.servers; ++id) {
      EXPECT_EQ(Register(100 + id, absl::StrCat("host-", id, ":1")).value(), id);
    }
    for (const uint32_t id : {0, 1}) {
      EXPECT_TRUE(state_.RegisterWorker(WorkerProcess(200 + id)).ok());
    }
    if (options.has_output) state_.EndFileWork(absl::OkStatus());
    TellServers();
    EXPECT_EQ(state_.view().phase(), v1::TRAINING);
    state_.TakeEvents();
  }

  JobState& state() { return state_; }
  FakeClock& clock() { return clock_; }
  const v1::JobView& view() const { return state_.view(); }

  absl::StatusOr<uint32_t> Register(uint64_t incarnation, const std::string& address) {
    return state_.RegisterServer(ServerProcess(incarnation, address));
  }
  // Of a process that has acted on the newest view.
  v1::HeartbeatRequest BeatOf(uint32_t server) const {
    v1::HeartbeatRequest request;
    request.set_role(kServer);
    request.set_id(server);
    request.set_incarnation(view().servers(static_cast<int>(server)).incarnation());
    request.set_view_version(view().version());
    return request;
  }
  void Tell(const v1::HeartbeatRequest& heartbeat) {
    const absl::Status status = state_.Heartbeat(heartbeat);
    EXPECT_TRUE(status.ok()) << status;
  }
  // All live servers act on the newest view.
  void TellServers() {
    const v1::JobView before = view();
    for (const v1::ServerInfo& server : before.servers()) {
      if (!server.is_live() || has_ended()) continue;
      v1::HeartbeatRequest heartbeat = BeatOf(server.server());
      heartbeat.set_view_version(before.version());
      Tell(heartbeat);
    }
  }
  // All copies that there are now become whole.
  void MakeWhole() {
    const v1::JobView before = view();
    for (int shard = 0; shard < before.copies_size(); ++shard) {
      v1::HeartbeatRequest heartbeat = BeatOf(before.server_of_shard(shard));
      v1::WholeCopy& whole = *heartbeat.mutable_copies()->add_whole();
      whole.set_shard(static_cast<uint32_t>(shard));
      whole.set_number(before.copies(shard).number());
      Tell(heartbeat);
    }
  }
  void Lose(uint32_t server, bool is_broken = true) {
    state_.DeclareDead({kServer, server}, is_broken);
  }
  void Finish(uint32_t worker, bool reports_result = false) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(kWorker);
    heartbeat.set_id(worker);
    heartbeat.set_incarnation(view().workers(static_cast<int>(worker)).incarnation());
    heartbeat.mutable_progress()->set_steps_done(9);
    heartbeat.mutable_progress()->set_steps_total(9);
    Tell(heartbeat);
    if (!reports_result) return;
    v1::ReportResultRequest result;
    result.set_worker(view().evaluator());
    result.set_incarnation(view().workers(static_cast<int>(view().evaluator())).incarnation());
    EXPECT_TRUE(state_.ReportResult(result).ok());
  }
  // All workers have done their steps.
  void Evaluate() {
    for (const uint32_t worker : {0, 1}) Finish(worker);
    TellServers();
    EXPECT_EQ(view().phase(), v1::EVALUATING);
  }
  bool has_ended() const { return state_.has_ended(); }
  std::vector<uint32_t> Primaries() const {
    return {view().server_of_shard().begin(), view().server_of_shard().end()};
  }
  int CopiesWithFault(const std::string& fault) const {
    int count = 0;
    for (const v1::ShardCopy& copy : view().copies()) {
      count += copy.fault() == fault && !copy.is_whole();
    }
    return count;
  }
  std::string Events() {
    std::string text;
    for (const JobEvent& event : state_.TakeEvents()) absl::StrAppend(&text, event.text, "\n");
    return text;
  }
  nlohmann::json Summary() const {
    return nlohmann::json::parse(SummaryJson(job_, state_.Outcome()));
  }

 private:
  FakeClock clock_;
  const v1::JobSpec job_;
  JobState state_;
};

TEST(JobStateServersTest, TheShardsOfALostServerMoveInOneViewWithTheNextEpoch) {
  Training training;
  training.MakeWhole();
  training.Events();
  const v1::JobView before = training.view();
  training.Lose(0);
  const v1::JobView& view = training.view();
  EXPECT_EQ(view.phase(), v1::TRAINING);
  EXPECT_EQ(view.version(), before.version() + 1);
  EXPECT_EQ(before.epoch(), 1u);
  EXPECT_EQ(view.epoch(), 2u);
  EXPECT_EQ(training.state().facts().placement_version, view.version());
  EXPECT_FALSE(view.servers(0).is_live());
  EXPECT_THAT(training.Primaries(), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(training.CopiesWithFault("server 0 is lost"), 4);
  EXPECT_THAT(training.state().Status().bytes_of_server(), ElementsAre(0, 256));
  EXPECT_EQ(
      training.Events(),
      "server 0 has ended, or its connection has broken: 2 of its shards are on server 1 now; "
      "nothing is lost; one copy is left of 4 shards until another server takes its place\n");
}

TEST(JobStateServersTest, TheSilentAreLostInTheSameWayAndAreToldWhy) {
  Training training;
  training.MakeWhole();
  const v1::HeartbeatRequest late = training.BeatOf(0);
  training.Lose(0, /*is_broken=*/false);
  EXPECT_EQ(training.view().phase(), v1::TRAINING);
  EXPECT_THAT(training.Events(), HasSubstr("server 0 has been silent for 10 s (lease): 2 of"));
  const absl::Status refused = training.state().Heartbeat(late);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("was declared dead"), HasSubstr("this process must stop")));
  EXPECT_EQ(training.Register(100, "host-0:1").status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "a false alarm: it is no newcomer";
}

TEST(JobStateServersTest, AServerWithCopiesOnlyTakesNoEpochWithIt) {
  Training training;
  training.MakeWhole();
  training.Lose(0);
  ASSERT_EQ(training.Register(300, "host-0:2").value(), 0u);
  training.MakeWhole();
  const uint64_t placement_version = training.state().facts().placement_version;
  training.Events();
  training.Lose(0);
  EXPECT_EQ(training.view().epoch(), 2u);
  EXPECT_EQ(training.state().facts().placement_version, placement_version);
  EXPECT_EQ(training.CopiesWithFault("server 0 is lost"), 4);
  EXPECT_THAT(training.Events(), HasSubstr("it had copies only; nothing is lost; one copy"));
  EXPECT_EQ(training.state().Status().servers_lost(), 2u);
}

TEST(JobStateServersTest, WithThreeServersOtherCopiesAreMadeAtOnce) {
  Training training({.servers = 3});
  training.MakeWhole();
  const v1::JobView before = training.view();
  training.Lose(0);
  const v1::JobView& view = training.view();
  EXPECT_EQ(view.version(), before.version() + 1);
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(view.copies(shard).fault(), "");
    EXPECT_NE(view.copies(shard).server(), 0u);
    EXPECT_NE(view.server_of_shard(shard), 0u);
    EXPECT_NE(view.copies(shard).server(), view.server_of_shard(shard));
    const bool is_touched =
        before.server_of_shard(shard) == 0 || before.copies(shard).server() == 0;
    EXPECT_EQ(view.copies(shard).number(), is_touched ? 2u : 1u);
  }
  EXPECT_THAT(training.Events(), HasSubstr("until others are made"));
  training.MakeWhole();
  EXPECT_THAT(training.Events(), HasSubstr("all 4 shards have two equal copies again"));
  training.Lose(1);
  EXPECT_EQ(training.view().phase(), v1::TRAINING);
  EXPECT_THAT(training.Primaries(), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(training.view().epoch(), 3u);
}

TEST(JobStateServersTest, CopiesThatAreNotWholeAreNeverPromoted) {
  Training training;
  training.Lose(0);
  EXPECT_EQ(training.view().phase(), v1::FAILED);
  EXPECT_THAT(training.view().reason(),
              HasSubstr("server 0 (host-0:1) has ended, or its connection has broken; no whole "
                        "copy is left of 2 of its shards: see its log"));
}

TEST(JobStateServersTest, TheSecondLossBeforeCopiesAreWholeFailsTheJobWithTheCount) {
  Training training({.servers = 3});
  training.MakeWhole();
  training.Lose(0);
  const uint32_t next = training.view().server_of_shard(0);
  int single = 0;
  for (int shard = 0; shard < 4; ++shard) {
    single +=
        training.view().server_of_shard(shard) == next && !training.view().copies(shard).is_whole();
  }
  ASSERT_GT(single, 0);
  training.Lose(next);
  EXPECT_EQ(training.view().phase(), v1::FAILED);
  EXPECT_THAT(training.view().reason(),
              HasSubstr(absl::StrCat("no whole copy is left of ", single, " of its shards")));
}

TEST(JobStateServersTest, TheLastServerIsNotLostWithoutTheJob) {
  Training training;
  training.MakeWhole();
  training.Lose(0);
  training.Lose(1);
  EXPECT_EQ(training.view().phase(), v1::FAILED);
  EXPECT_THAT(training.view().reason(), HasSubstr("no whole copy is left of 4 of its shards"));
  EXPECT_EQ(training.Summary()["servers_lost"], 2);
  EXPECT_FALSE(training.Summary().contains("server_losses")) << "much was lost";
}

TEST(JobStateServersTest, WithOneReplicaTheJobFailsAndTheTextNamesTheOption) {
  Training training({.servers = 2, .replicas = 1});
  training.Lose(0);
  EXPECT_EQ(training.view().phase(), v1::FAILED);
  EXPECT_THAT(training.view().reason(),
              AllOf(HasSubstr("its shards are lost: "),
                    HasSubstr("with --replicas=2 the job would have gone on")));
}

TEST(JobStateServersTest, AServerLostBeforeTheTrainingFailsTheJob) {
  FakeClock clock;
  JobState state(Job({}), clock);
  for (const uint32_t id : {0, 1}) {
    ASSERT_TRUE(state.RegisterServer(ServerProcess(100 + id, "host:1")).ok());
    ASSERT_TRUE(state.RegisterWorker(WorkerProcess(200 + id)).ok());
  }
  ASSERT_EQ(state.view().phase(), v1::PLACING);
  for (const uint32_t id : {0, 1}) {
    v1::HeartbeatRequest heartbeat;
    heartbeat.set_role(kServer);
    heartbeat.set_id(id);
    heartbeat.set_incarnation(100 + id);
    for (uint32_t shard = 0; shard < 4; ++shard) {
      v1::WholeCopy& whole = *heartbeat.mutable_copies()->add_whole();
      whole.set_shard(shard);
      whole.set_number(1);
    }
    ASSERT_TRUE(state.Heartbeat(heartbeat).ok());
  }
  ASSERT_TRUE(state.view().copies(0).is_whole() && state.view().copies(1).is_whole());
  EXPECT_FALSE(state.LosesNothingWith({kServer, 0}, Incarnation(100)));
  state.DeclareDead({kServer, 0});
  EXPECT_EQ(state.view().phase(), v1::FAILED);
}

TEST(JobStateServersTest, AnotherProcessTakesThePlaceAndGetsTheCopies) {
  Training training;
  training.MakeWhole();
  v1::HeartbeatRequest loaded = training.BeatOf(0);
  loaded.mutable_load()->set_exchanges(9);
  loaded.mutable_load()->set_seconds(9);
  training.Tell(loaded);
  training.Lose(0);
  training.Events();
  const uint64_t version = training.view().version();
  ASSERT_EQ(training.Register(300, "host-0:2").value(), 0u);
  const v1::JobView& view = training.view();
  EXPECT_EQ(view.version(), version + 1);
  EXPECT_TRUE(view.servers(0).is_live());
  EXPECT_EQ(view.servers(0).incarnation(), 300u);
  EXPECT_EQ(view.servers(0).address(), "host-0:2");
  EXPECT_THAT(training.Primaries(), ElementsAre(1, 1, 1, 1)) << "it has no shard of its own";
  EXPECT_EQ(view.epoch(), 2u);
  for (const v1::ShardCopy& copy : view.copies()) {
    EXPECT_EQ(copy.server(), 0u);
    EXPECT_EQ(copy.number(), 2u);
    EXPECT_EQ(copy.fault(), "");
    EXPECT_FALSE(copy.is_whole());
  }
  EXPECT_EQ(training.state().Status().load_of_server(0).exchanges(), 0u);
  EXPECT_THAT(training.Events(), HasSubstr("another server takes the place of server 0"));
  training.clock().Advance(absl::Seconds(2));
  training.MakeWhole();
  const v1::GetStatusReply status = training.state().Status();
  EXPECT_EQ(status.servers_lost(), 1u);
  EXPECT_EQ(status.servers_replaced(), 1u);
  ASSERT_EQ(status.server_losses_size(), 1);
  EXPECT_EQ(status.server_losses(0).shards_moved(), 2u);
  EXPECT_EQ(status.server_losses(0).seconds_until_whole(), 2);
  training.Lose(1);
  EXPECT_EQ(training.view().phase(), v1::TRAINING) << "the copies on the new server count";
}

TEST(JobStateServersTest, WhileAllAreLiveAServerTooManyIsRefused) {
  Training training;
  training.MakeWhole();
  EXPECT_EQ(training.Register(300, "host-3:1").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(training.view().epoch(), 1u);
}

TEST(JobStateServersTest, AProcessAtALiveServersAddressTakesItsPlaceAtOnce) {
  Training training;
  training.MakeWhole();
  training.Events();
  ASSERT_EQ(training.Register(300, "host-1:1").value(), 1u);
  EXPECT_THAT(training.Primaries(), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(training.view().servers(1).incarnation(), 300u);
  EXPECT_THAT(training.Events(), AllOf(HasSubstr("server 1 has ended, as another process has its "
                                                 "address: 2 of its shards"),
                                       HasSubstr("takes the place of server 1")));
  ASSERT_EQ(training.Register(300, "host-1:1").value(), 1u) << "it asks once more";
  EXPECT_EQ(training.view().epoch(), 2u);
  EXPECT_EQ(training.Register(101, "host-1:1").status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "a late call of the old process";
  EXPECT_EQ(training.view().servers(1).incarnation(), 300u);
}

TEST(JobStateServersTest, AProcessAtALiveServersAddressFailsTheJobIfShardsAreLost) {
  Training training;
  EXPECT_FALSE(training.Register(300, "host-1:1").ok());
  EXPECT_EQ(training.view().phase(), v1::FAILED);
  EXPECT_THAT(training.view().reason(), HasSubstr("another process has its address; no whole"));
}

TEST(JobStateServersTest, AServerThatIsAskedToEndLeavesOnceItsCopiesAreWhole) {
  Training training;
  v1::HeartbeatRequest leaving = training.BeatOf(0);
  leaving.set_is_leaving(true);
  training.Tell(leaving);
  EXPECT_TRUE(training.view().servers(0).is_live());
  EXPECT_EQ(training.view().phase(), v1::TRAINING);
  training.MakeWhole();
  EXPECT_TRUE(training.view().servers(0).is_live()) << "it must say it again";
  training.Events();
  training.Tell(leaving);
  EXPECT_FALSE(training.view().servers(0).is_live());
  EXPECT_THAT(training.Primaries(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(training.Events(), HasSubstr("server 0 was asked to end, and has left: 2 of"));
  const absl::Status refused = training.state().Heartbeat(leaving);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("was asked to end, and has left"));
}

TEST(JobStateServersTest, TheReportThatCopiesAreWholeCountsForALeavingServer) {
  Training training;
  v1::HeartbeatRequest leaving = training.BeatOf(0);
  leaving.set_is_leaving(true);
  for (uint32_t shard = 0; shard < 4; ++shard) {
    v1::WholeCopy& whole = *leaving.mutable_copies()->add_whole();
    whole.set_shard(shard);
    whole.set_number(1);
  }
  training.Tell(leaving);
  EXPECT_FALSE(training.view().servers(0).is_live());
}

TEST(JobStateServersTest, WithOneReplicaALeavingServerStays) {
  Training training({.servers = 2, .replicas = 1});
  v1::HeartbeatRequest leaving = training.BeatOf(0);
  leaving.set_is_leaving(true);
  training.Tell(leaving);
  EXPECT_TRUE(training.view().servers(0).is_live());
  EXPECT_EQ(training.view().phase(), v1::TRAINING);
}

v1::ReportFailureRequest FailureOf(Role role, uint32_t id, const std::string& reason) {
  v1::ReportFailureRequest failure;
  failure.set_role(role);
  failure.set_id(id);
  failure.set_incarnation((role == kServer ? 100 : 200) + id);
  failure.set_reason(reason);
  return failure;
}

TEST(JobStateServersTest, AServerThatReportsItsFailureIsLostAndNothingElse) {
  Training training;
  training.MakeWhole();
  training.Events();
  ASSERT_TRUE(training.state().ReportFailure(FailureOf(kServer, 0, "no memory")).ok());
  EXPECT_EQ(training.view().phase(), v1::TRAINING);
  EXPECT_THAT(training.Primaries(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(training.Events(), HasSubstr("server 0 has failed: no memory: 2 of its shards"));
  EXPECT_FALSE(training.state().ReportFailure(FailureOf(kServer, 0, "again")).ok());
}

TEST(JobStateServersTest, AServerThatReportsItsFailureBeforeCopiesAreWholeFailsTheJob) {
  Training training;
  ASSERT_TRUE(training.state().ReportFailure(FailureOf(kServer, 0, "no memory")).ok());
  EXPECT_EQ(training.view().phase(), v1::FAILED);
  EXPECT_EQ(training.view().reason(), "server 0: no memory");
}

TEST(JobStateServersTest, AWorkersFailureFailsTheJobWithCopiesToo) {
  Training training;
  training.MakeWhole();
  ASSERT_TRUE(training.state().ReportFailure(FailureOf(kWorker, 0, "no memory")).ok());
  EXPECT_EQ(training.view().phase(), v1::FAILED);
}

TEST(JobStateServersTest, NothingIsLostWithAServerOnlyWhileItsCopiesAreWhole) {
  Training training;
  const auto loses_nothing = [&training](uint32_t id, uint64_t incarnation) {
    return training.state().LosesNothingWith({kServer, id}, Incarnation(incarnation));
  };
  EXPECT_FALSE(loses_nothing(0, 100));
  training.MakeWhole();
  EXPECT_TRUE(loses_nothing(0, 100));
  EXPECT_FALSE(loses_nothing(0, 101)) << "another process";
  EXPECT_FALSE(loses_nothing(2, 102)) << "there is none";
  training.Lose(0);
  EXPECT_FALSE(loses_nothing(0, 100)) << "it is lost";
  EXPECT_FALSE(loses_nothing(1, 101));
}

// A worker is to enter; the servers have acted on the newest view unless told otherwise.
v1::HeartbeatRequest NextStepOf(const Training& training, uint32_t server, int64_t step) {
  v1::HeartbeatRequest heartbeat = training.BeatOf(server);
  v1::NextStep& next = *heartbeat.add_next_steps();
  next.set_worker(1);
  next.set_incarnation(300);
  next.set_step(step);
  return heartbeat;
}

TEST(JobStateServersTest, AWorkerEntersByTheReportsOfLiveServersOnTheNewestPlacement) {
  Training training({.servers = 3});
  training.MakeWhole();
  training.state().DeclareDead({kWorker, 1});
  ASSERT_EQ(training.state().RegisterWorker(WorkerProcess(300)).value(), 1u);
  const v1::HeartbeatRequest late = NextStepOf(training, 1, 50);
  training.Tell(NextStepOf(training, 0, 40));
  training.Tell(NextStepOf(training, 2, 60));
  training.Lose(0);
  training.Tell(late);
  training.Tell(NextStepOf(training, 2, 7));
  EXPECT_TRUE(training.view().workers(1).is_entering()) << "server 1 reported an old placement";
  training.Tell(NextStepOf(training, 1, 5));
  EXPECT_FALSE(training.view().workers(1).is_entering());
  EXPECT_EQ(training.view().workers(1).first_step(), 7);
}

TEST(JobStateServersTest, AChangeOfConsistencyBeginsByTheReportsOnTheNewestPlacement) {
  Training training({.servers = 3});
  training.MakeWhole();
  v1::SetConsistencyRequest request;
  request.mutable_change()->set_mode(v1::ConsistencySpec::ASYNC);
  const uint64_t change = training.state().BeginConsistencyChange(request).value();
  const auto held = [&](uint32_t server, int64_t step) {
    v1::HeartbeatRequest heartbeat = training.BeatOf(server);
    heartbeat.mutable_held_step()->set_consistency_change(change);
    heartbeat.mutable_held_step()->set_step(step);
    return heartbeat;
  };
  const v1::HeartbeatRequest late = held(1, 80);
  training.Tell(held(0, 90));
  training.Lose(0);
  EXPECT_EQ(training.view().consistency_change(), change);
  training.Tell(late);
  training.Tell(held(2, 8));
  EXPECT_EQ(training.view().consistency_change(), change);
  training.Tell(held(1, 6));
  EXPECT_EQ(training.view().consistency_change(), 0u);
  EXPECT_EQ(training.view().consistency(1).first_step(), 8);
}

TEST(JobStateServersTest, AServerThatHasJoinedIsAwaitedBeforeTheEvaluation) {
  Training training;
  training.MakeWhole();
  training.Lose(0);
  training.state().DeclareDead({kWorker, 1});
  ASSERT_EQ(training.Register(300, "host-0:2").value(), 0u);
  training.Tell(training.BeatOf(1));
  training.Finish(0);
  EXPECT_EQ(training.view().phase(), v1::TRAINING) << "server 0 has seen nothing";
  training.Tell(training.BeatOf(0));
  EXPECT_EQ(training.view().phase(), v1::EVALUATING);
}

TEST(JobStateServersTest, TheDeadAreNotAwaitedBeforeTheEvaluation) {
  Training training;
  training.MakeWhole();
  training.Lose(0);
  training.state().DeclareDead({kWorker, 1});
  training.Finish(0);
  EXPECT_EQ(training.view().phase(), v1::TRAINING) << "server 1 has not heard of the worker";
  training.Tell(training.BeatOf(1));
  EXPECT_EQ(training.view().phase(), v1::EVALUATING);
}

TEST(JobStateServersTest, AServerMayBeLostAndReplacedInTheEvaluation) {
  Training training;
  training.MakeWhole();
  training.Evaluate();
  training.Lose(0);
  EXPECT_EQ(training.view().phase(), v1::EVALUATING);
  EXPECT_EQ(training.view().epoch(), 2u);
  ASSERT_EQ(training.Register(300, "host-0:2").value(), 0u);
  EXPECT_EQ(training.view().copies(0).number(), 2u);
  training.Finish(0, /*reports_result=*/true);
  EXPECT_EQ(training.view().phase(), v1::DONE);
}

TEST(JobStateServersTest, AServerLostWhileTheResultIsSavedLetsTheOthersWriteAgain) {
  Training training({.servers = 3, .has_output = true});
  training.MakeWhole();
  training.Evaluate();
  training.Finish(0, /*reports_result=*/true);
  ASSERT_EQ(training.view().phase(), v1::SAVING);
  EXPECT_NE(training.state().TakeFileWork(), nullptr) << "the file of the beginning";
  const v1::HeartbeatRequest late = training.BeatOf(2);
  training.Tell(training.BeatOf(1));
  training.Lose(0);
  ASSERT_EQ(training.view().phase(), v1::SAVING);
  training.Tell(late);
  EXPECT_EQ(training.state().TakeFileWork(), nullptr) << "both are to write again";
  training.Tell(training.BeatOf(1));
  EXPECT_EQ(training.state().TakeFileWork(), nullptr);
  EXPECT_THAT(std::string(training.Register(300, "host-0:2").status().message()),
              HasSubstr("it needs no other server any more"));
  training.Tell(training.BeatOf(2));
  EXPECT_NE(training.state().TakeFileWork(), nullptr);
  const v1::JobView before = training.view();
  training.Lose(1);
  EXPECT_EQ(training.view().epoch(), before.epoch()) << "all has been written";
  EXPECT_THAT(training.Events(), HasSubstr("its work is done"));
  training.state().EndFileWork(absl::OkStatus());
  EXPECT_EQ(training.view().phase(), v1::DONE);
}

TEST(JobStateServersTest, TheSummarySaysWhatBecameOfLostServers) {
  Training training;
  training.MakeWhole();
  nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["servers_lost"], 0);
  EXPECT_EQ(summary["shards_without_copy"], 0);
  EXPECT_FALSE(summary.contains("server_losses"));
  training.Lose(0);
  summary = training.Summary();
  EXPECT_EQ(summary["servers_lost"], 1);
  EXPECT_EQ(summary["servers_replaced"], 0);
  EXPECT_EQ(summary["shards_without_copy"], 4);
  EXPECT_EQ(summary["server_losses"],
            "1 server was lost; nothing was lost; one copy is left of 4 shards");
  EXPECT_FALSE(summary.contains("warning")) << summary["warning"];
  ASSERT_TRUE(training.Register(300, "host-0:2").ok());
  training.MakeWhole();
  EXPECT_EQ(training.Summary()["server_losses"],
            "1 server was lost and replaced; nothing was lost");
  training.Lose(1);
  EXPECT_EQ(training.Summary()["server_losses"],
            "2 servers were lost, and 1 was replaced; nothing was lost; one copy is left of 4 "
            "shards");
}

}  // namespace
}  // namespace capstan
