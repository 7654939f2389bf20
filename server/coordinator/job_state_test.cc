#include "server/coordinator/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pair;

constexpr MemberKey kServer{v1::HeartbeatRequest::SERVER, 0};

MemberKey Worker(uint32_t id) { return {v1::HeartbeatRequest::WORKER, id}; }

// Notes the calls, and answers as told.
class FakeOutput : public ModelOutput {
 public:
  uint64_t token() const override { return 7; }
  absl::Status Begin(const Tables& tables, const std::vector<TableOfRows>&,
                     const Tables&) override {
    calls.push_back(absl::StrCat("begin ", tables.size(), " ", tables[0].name()));
    return begun;
  }
  absl::Status Publish(const Metadata& metadata, std::optional<uint64_t> parameters_xxh3) override {
    calls.push_back(absl::StrCat("publish ", *parameters_xxh3));
    this->metadata = metadata;
    return published;
  }

  absl::Status begun, published;
  std::vector<std::string> calls;
  Metadata metadata;
};

// One server and two workers; the incarnation of each is its id.
class JobStateTest : public ::testing::Test {
 protected:
  explicit JobStateTest(const v1::JobSpec& job = Job()) : state_(job, clock_) {}
  static v1::JobSpec Job() {
    v1::JobSpec job;
    job.mutable_cluster()->set_num_servers(1);
    return job;
  }

  void RegisterAll() {
    v1::RegisterServerRequest server;
    server.set_address("host:1");
    ASSERT_TRUE(state_.RegisterServer(server).ok());
    v1::RegisterWorkerRequest worker;
    worker.add_tables()->set_name("w");
    worker.mutable_tables(0)->add_shape(4);
    for (uint64_t id = 0; id < 2; ++id) {
      worker.set_incarnation(id);
      ASSERT_TRUE(state_.RegisterWorker(worker).ok());
    }
  }
  void Heartbeat(MemberKey member, int64_t steps_done = 0) {
    v1::HeartbeatRequest request;
    request.set_role(member.role);
    request.set_id(member.id);
    request.set_incarnation(member.id);
    request.set_view_version(state_.view().version());
    request.mutable_progress()->set_steps_done(steps_done);
    request.mutable_progress()->set_steps_total(9);
    ASSERT_TRUE(state_.Heartbeat(request).ok());
  }
  void StartTraining() {
    RegisterAll();
    Heartbeat(kServer);
  }

  FakeClock clock_;
  JobState state_;
};

TEST_F(JobStateTest, EachChangeIsOneVersion) {
  EXPECT_EQ(state_.view().version(), 1u);
  RegisterAll();  // The third registration is also the placement.
  EXPECT_EQ(state_.view().version(), 4u);
  Heartbeat(Worker(0), /*steps_done=*/3);
  EXPECT_EQ(state_.view().version(), 4u) << "progress is not in the view";
  Heartbeat(kServer);
  EXPECT_EQ(state_.view().version(), 5u);
}

TEST_F(JobStateTest, TheStatusHasTheLatestLoadOfEachServer) {
  RegisterAll();
  v1::HeartbeatRequest request;
  request.set_role(kServer.role);
  for (const auto& [exchanges, seconds] :
       {std::pair(5, 1.5), std::pair(9, 2.5), std::pair(7, 2.0)}) {
    request.mutable_load()->set_exchanges(exchanges);
    request.mutable_load()->set_seconds(seconds);
    ASSERT_TRUE(state_.Heartbeat(request).ok());
  }
  request.mutable_load()->set_seconds(std::nan(""));
  ASSERT_TRUE(state_.Heartbeat(request).ok());
  ASSERT_EQ(state_.Status().load_of_server_size(), 1);
  EXPECT_EQ(state_.Status().load_of_server(0).exchanges(), 9u) << "an older report came later";
}

TEST_F(JobStateTest, TheStatusNamesCodecsOnlyIfThereIsOne) {
  v1::JobSpec job = Job();
  job.mutable_codec()->set_push("float32");
  EXPECT_FALSE(JobState(job, clock_).Status().has_codec());
  job.mutable_codec()->set_push("int8");
  EXPECT_EQ(JobState(job, clock_).Status().codec().push(), "int8");
}

// A server and a worker on different machines, with 12 MB of parameters.
TEST_F(JobStateTest, LinksAreMeasuredBeforeTheValuesAreCut) {
  v1::JobSpec job = Job();
  job.mutable_cluster()->set_num_workers(1);
  job.mutable_cluster()->set_shard_count(2);
  JobState state(job, clock_);
  v1::RegisterServerRequest server;
  server.set_address("host:1");
  server.set_host("a");
  ASSERT_TRUE(state.RegisterServer(server).ok());
  v1::RegisterWorkerRequest worker;
  worker.set_host(std::string(201, 'b'));
  worker.add_tables()->set_name("w");
  worker.mutable_tables(0)->add_shape(3'000'000);
  EXPECT_THAT(std::string(state.RegisterWorker(worker).status().message()),
              HasSubstr("host: expected at most 200 bytes, got 201"));
  worker.set_host("b");
  ASSERT_TRUE(state.RegisterWorker(worker).ok());
  EXPECT_EQ(state.view().phase(), v1::REGISTERING);
  EXPECT_TRUE(state.view().measures_links());
  EXPECT_FALSE(state.view().has_scheduler());
  EXPECT_FALSE(state.Status().has_links());

  v1::HeartbeatRequest heartbeat;
  heartbeat.set_role(v1::HeartbeatRequest::WORKER);
  const uint64_t version = state.view().version();
  ASSERT_TRUE(state.Heartbeat(heartbeat).ok());
  EXPECT_EQ(state.view().version(), version) << "there is no news";
  heartbeat.mutable_links()->set_bytes_per_second(12.5e6);
  ASSERT_TRUE(state.Heartbeat(heartbeat).ok());
  EXPECT_EQ(state.view().phase(), v1::PLACING);
  EXPECT_FALSE(state.view().measures_links());
  EXPECT_EQ(state.view().scheduler().slice_bytes(), 64u << 10);
  EXPECT_EQ(state.Status().links().chosen().slice_bytes(), 64u << 10);
}

TEST_F(JobStateTest, TheChoiceForAutoCodecsIsInTheViewOnceItIsMade) {
  v1::JobSpec job = Job();
  job.mutable_cluster()->set_num_workers(1);
  job.mutable_codec()->set_push("auto");
  JobState state(job, clock_);
  v1::RegisterServerRequest server;
  server.set_address("host:1");
  ASSERT_TRUE(state.RegisterServer(server).ok());
  v1::RegisterWorkerRequest worker;
  worker.set_own_arrays(1);
  worker.add_tables()->set_name("w");
  worker.mutable_tables(0)->add_shape(100'000);
  ASSERT_TRUE(state.RegisterWorker(worker).ok());
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_role(v1::HeartbeatRequest::SERVER);
  heartbeat.set_view_version(state.view().version());
  ASSERT_TRUE(state.Heartbeat(heartbeat).ok());
  heartbeat.set_role(v1::HeartbeatRequest::WORKER);
  heartbeat.mutable_progress()->set_steps_total(50);
  heartbeat.mutable_progress()->set_steps_done(9);
  ASSERT_TRUE(state.Heartbeat(heartbeat).ok());
  EXPECT_FALSE(state.view().has_auto_codecs());
  heartbeat.mutable_progress()->set_steps_done(10);
  const uint64_t version = state.view().version();
  ASSERT_TRUE(state.Heartbeat(heartbeat).ok());
  EXPECT_EQ(state.view().version(), version + 1);
  EXPECT_EQ(state.view().auto_codecs().text(),
            "float32, because there are no links that were measured");
  EXPECT_EQ(state.Status().auto_codecs().text(), state.view().auto_codecs().text());
}

// Until then a server may still apply an update of the dead worker.
TEST_F(JobStateTest, ADeadWorkerThatOthersWaitedForEndsTheTrainingWhenEveryServerKnows) {
  StartTraining();
  Heartbeat(Worker(1), /*steps_done=*/9);
  const uint64_t version = state_.view().version();
  state_.DeclareDead(Worker(0));
  EXPECT_EQ(state_.view().version(), version + 1);
  EXPECT_EQ(state_.view().phase(), v1::TRAINING);
  Heartbeat(kServer);
  EXPECT_EQ(state_.view().version(), version + 2);
  EXPECT_EQ(state_.view().phase(), v1::EVALUATING);
  EXPECT_EQ(state_.view().evaluator(), 1u);
}

TEST_F(JobStateTest, FailureHasAReasonOfOneLine) {
  state_.Fail("first\r\nsecond");
  EXPECT_EQ(state_.view().reason(), "first second");
  state_.Fail("later");
  EXPECT_EQ(state_.view().reason(), "first second");
}

TEST_F(JobStateTest, WorkersThatCountOtherStepsFailTheJob) {
  StartTraining();
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::WORKER);
  for (const uint32_t id : {0, 1}) {
    request.set_id(id);
    request.set_incarnation(state_.view().workers(static_cast<int>(id)).incarnation());
    request.mutable_progress()->set_steps_total(id == 0 ? 100 : 200);
    EXPECT_TRUE(state_.Heartbeat(request).ok());
  }
  EXPECT_EQ(state_.view().phase(), v1::FAILED);
  EXPECT_THAT(state_.view().reason(), HasSubstr("worker 1 has 200 steps to do, the others 100"));
}

TEST_F(JobStateTest, ListsTheLiveMembers) {
  StartTraining();
  EXPECT_EQ(state_.facts().LiveMembers().size(), 3u);
  state_.DeclareDead(Worker(0));
  ASSERT_EQ(state_.facts().LiveMembers().size(), 2u);
  EXPECT_EQ(state_.facts().LiveMembers()[1], Worker(1));
}

TEST_F(JobStateTest, MeasuresTheTrainingUntilAFailure) {
  StartTraining();
  clock_.Advance(absl::Seconds(7));
  state_.DeclareDead(kServer);
  clock_.Advance(absl::Seconds(7));
  const JobOutcome outcome = state_.Outcome();
  EXPECT_EQ(outcome.training_time, absl::Seconds(7));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("server 0 (host:1)"));
}

v1::RegisterWorkerRequest LateWorker(uint64_t incarnation) {
  v1::RegisterWorkerRequest request;
  request.add_tables()->set_name("w");
  request.mutable_tables(0)->add_shape(4);
  request.set_incarnation(incarnation);
  request.set_may_enter_late(true);
  return request;
}

TEST_F(JobStateTest, AWorkerTakesADeadOnesPlaceAndEntersWhenTheServersHaveSaidWhere) {
  StartTraining();
  EXPECT_TRUE(absl::IsResourceExhausted(state_.RegisterWorker(LateWorker(50)).status()))
      << "all are live";
  state_.DeclareDead(Worker(1));
  v1::RegisterWorkerRequest from_the_start = LateWorker(50);
  from_the_start.set_may_enter_late(false);
  EXPECT_FALSE(state_.RegisterWorker(from_the_start).ok());
  EXPECT_EQ(state_.RegisterWorker(LateWorker(50)).value(), 1u);
  EXPECT_EQ(state_.RegisterWorker(LateWorker(50)).value(), 1u) << "the same process asks again";
  EXPECT_FALSE(state_.RegisterWorker(LateWorker(51)).ok());
  const v1::WorkerInfo entering = state_.view().workers(1);
  EXPECT_EQ(entering.incarnation(), 50u);
  EXPECT_TRUE(entering.is_live() && entering.is_entering());

  v1::HeartbeatRequest heartbeat;
  heartbeat.set_role(v1::HeartbeatRequest::SERVER);
  v1::NextStep& next_step = *heartbeat.add_next_steps();
  next_step.set_worker(1);
  next_step.set_incarnation(50);
  next_step.set_step(6);
  const uint64_t version = state_.view().version();
  heartbeat.set_view_version(version);
  ASSERT_TRUE(state_.Heartbeat(heartbeat).ok());
  EXPECT_EQ(state_.view().version(), version + 1);
  EXPECT_FALSE(state_.view().workers(1).is_entering());
  EXPECT_EQ(state_.view().workers(1).first_step(), 6);
}

TEST_F(JobStateTest, ALostWorkerIsCountedAlsoWhenAnotherHasTakenItsPlace) {
  StartTraining();
  Heartbeat(Worker(1), /*steps_done=*/4);
  state_.DeclareDead(Worker(1));
  EXPECT_EQ(state_.Outcome().workers_lost, 1);
  ASSERT_TRUE(state_.RegisterWorker(LateWorker(50)).ok());
  EXPECT_EQ(state_.Outcome().workers_lost, 1);
  ASSERT_EQ(state_.Status().replaced_workers_size(), 1);
  EXPECT_EQ(state_.Status().replaced_workers(0).steps_done(), 4);
  EXPECT_EQ(state_.Status().progress(1).steps_done(), 0) << "it has not begun yet";
}

TEST_F(JobStateTest, NoWorkerComesTooLateToTrain) {
  StartTraining();
  Heartbeat(Worker(1), /*steps_done=*/9);
  state_.DeclareDead(Worker(0));
  Heartbeat(kServer);
  ASSERT_EQ(state_.view().phase(), v1::EVALUATING);
  const absl::Status refused = state_.RegisterWorker(LateWorker(50)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("have done their steps"));
}

TEST_F(JobStateTest, AWorkerThatCameAfterTheLastStepLeavesAndTheJobGoesOn) {
  StartTraining();
  state_.DeclareDead(Worker(1));
  ASSERT_TRUE(state_.RegisterWorker(LateWorker(50)).ok());
  EXPECT_TRUE(state_.view().workers(1).entered_late());
  EXPECT_FALSE(state_.view().workers(0).entered_late());
  Heartbeat(Worker(0), /*steps_done=*/9);
  ASSERT_EQ(state_.view().phase(), v1::TRAINING);
  v1::ReportFailureRequest late;
  late.set_role(v1::HeartbeatRequest::WORKER);
  late.set_id(1);
  late.set_incarnation(50);
  late.set_reason("the others had done all");
  late.set_came_after_end(true);
  ASSERT_TRUE(state_.ReportFailure(late).ok());
  EXPECT_FALSE(state_.view().workers(1).is_live());
  EXPECT_EQ(state_.Outcome().workers_lost, 1) << "only the one before it";
  Heartbeat(kServer);
  EXPECT_EQ(state_.view().phase(), v1::EVALUATING);
}

TEST_F(JobStateTest, AWorkerFromTheStartThatFindsTheStepsOverFailsTheJob) {
  StartTraining();
  Heartbeat(Worker(0), /*steps_done=*/9);
  v1::ReportFailureRequest failure;
  failure.set_role(v1::HeartbeatRequest::WORKER);
  failure.set_id(1);
  failure.set_incarnation(state_.view().workers(1).incarnation());
  failure.set_reason("has begun step 9");
  failure.set_came_after_end(true);
  ASSERT_TRUE(state_.ReportFailure(failure).ok());
  EXPECT_EQ(state_.view().phase(), v1::FAILED);
  EXPECT_THAT(state_.view().reason(), HasSubstr("worker 1: has begun step 9"));
}

TEST_F(JobStateTest, AnEnteringWorkerThatDiesLeavesItsPlaceToTheNext) {
  StartTraining();
  state_.DeclareDead(Worker(1));
  ASSERT_TRUE(state_.RegisterWorker(LateWorker(50)).ok());
  state_.DeclareDead(Worker(1));
  EXPECT_FALSE(state_.view().workers(1).is_entering());
  EXPECT_EQ(state_.RegisterWorker(LateWorker(51)).value(), 1u);
}

class LeavingTest : public JobStateTest {
 protected:
  void Leave(uint32_t worker, int64_t steps_done = 4) {
    v1::HeartbeatRequest request;
    request.set_role(v1::HeartbeatRequest::WORKER);
    request.set_id(worker);
    request.set_incarnation(worker);
    request.mutable_progress()->set_steps_done(steps_done);
    request.mutable_progress()->set_steps_total(9);
    request.set_is_leaving(true);
    ASSERT_TRUE(state_.Heartbeat(request).ok());
  }
};

TEST_F(LeavingTest, TheOthersGoOnAndThePlaceIsFreeAtOnce) {
  StartTraining();
  const uint64_t version = state_.view().version();
  Leave(1);
  EXPECT_EQ(state_.view().version(), version + 1);
  EXPECT_EQ(state_.view().phase(), v1::TRAINING);
  EXPECT_FALSE(state_.view().workers(1).is_live());
  EXPECT_EQ(state_.Outcome().workers_lost, 1);
  EXPECT_EQ(state_.Status().progress(1).steps_done(), 4);
  EXPECT_EQ(state_.RegisterWorker(LateWorker(50)).value(), 1u);
}

TEST_F(LeavingTest, ItsLeaseDoesNotEndItOnceMore) {
  StartTraining();
  Leave(1);
  const uint64_t version = state_.view().version();
  state_.DeclareDead(Worker(1));
  EXPECT_EQ(state_.view().version(), version);
  v1::HeartbeatRequest late;
  late.set_role(v1::HeartbeatRequest::WORKER);
  late.set_id(1);
  late.set_incarnation(1);
  EXPECT_THAT(std::string(state_.Heartbeat(late).message()),
              HasSubstr("worker 1 was asked to end, and has left; this process must stop"));
}

TEST_F(LeavingTest, AnEnteringWorkerMayLeave) {
  StartTraining();
  Leave(1);
  ASSERT_TRUE(state_.RegisterWorker(LateWorker(50)).ok());
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::WORKER);
  request.set_id(1);
  request.set_incarnation(50);
  request.set_is_leaving(true);
  ASSERT_TRUE(state_.Heartbeat(request).ok());
  EXPECT_FALSE(state_.view().workers(1).is_entering());
  EXPECT_EQ(state_.RegisterWorker(LateWorker(51)).value(), 1u);
}

TEST_F(LeavingTest, BeforeTheTrainingItEndsTheJob) {
  RegisterAll();
  Leave(0, /*steps_done=*/0);
  EXPECT_EQ(state_.view().phase(), v1::FAILED);
  EXPECT_THAT(state_.view().reason(),
              HasSubstr("worker 0 was asked to end, and has left before training began"));
}

TEST_F(LeavingTest, TheLastWorkerEndsTheJob) {
  StartTraining();
  Leave(1);
  Leave(0);
  EXPECT_EQ(state_.view().phase(), v1::FAILED);
  EXPECT_THAT(state_.view().reason(), HasSubstr("was the last live worker"));
}

TEST_F(LeavingTest, WhoHasDoneAllStepsStaysToTheEnd) {
  StartTraining();
  Leave(1, /*steps_done=*/9);
  EXPECT_FALSE(state_.view().workers(1).is_live()) << "another one may still need its place";
  Heartbeat(Worker(0), /*steps_done=*/9);
  Heartbeat(kServer);
  ASSERT_EQ(state_.view().phase(), v1::EVALUATING);
  Leave(0, /*steps_done=*/9);
  EXPECT_EQ(state_.view().phase(), v1::EVALUATING);
  EXPECT_TRUE(state_.view().workers(0).is_live());
}

class SavingTest : public JobStateTest {
 protected:
  SavingTest() : JobStateTest(JobWithOutput()) {}

  static v1::JobSpec JobWithOutput() {
    v1::JobSpec job = Job();
    job.set_output("m");
    return job;
  }
  // True if there was something to do.
  bool DoFileWork() {
    OutputPlan::Work work = state_.TakeFileWork();
    if (work == nullptr) return false;
    state_.EndFileWork(work(output_));
    return true;
  }
  absl::Status ReportResult() {
    v1::ReportResultRequest result;
    result.set_test_accuracy(0.7);
    result.set_parameters_xxh3(171);
    return state_.ReportResult(result);
  }
  void Evaluate() {
    RegisterAll();
    ASSERT_TRUE(DoFileWork());
    Heartbeat(kServer);
    for (uint32_t id : {0, 1}) Heartbeat(Worker(id), /*steps_done=*/9);
    ASSERT_TRUE(ReportResult().ok());
  }

  FakeOutput output_;
};

TEST_F(SavingTest, TheFileIsMadeBeforeServersGetTheirShards) {
  RegisterAll();
  EXPECT_EQ(state_.view().phase(), v1::REGISTERING);
  EXPECT_EQ(state_.registration_deadline(), absl::InfiniteFuture()) << "nobody is missing";
  EXPECT_TRUE(DoFileWork());
  EXPECT_THAT(output_.calls, ElementsAre("begin 1 w"));
  EXPECT_EQ(state_.view().phase(), v1::PLACING);
  EXPECT_FALSE(DoFileWork());
}

TEST_F(SavingTest, TheJobIsDoneWhenEveryServerHasWrittenAndTheFileHasItsName) {
  Evaluate();
  EXPECT_EQ(state_.view().phase(), v1::SAVING);
  ASSERT_TRUE(ReportResult().ok()) << "a repeated report changes nothing";
  Heartbeat(Worker(0), /*steps_done=*/9);
  EXPECT_FALSE(DoFileWork()) << "the server has not written";
  Heartbeat(kServer);
  EXPECT_EQ(state_.view().phase(), v1::SAVING);
  EXPECT_TRUE(DoFileWork());
  EXPECT_EQ(state_.view().phase(), v1::DONE);
  EXPECT_THAT(output_.calls, ElementsAre("begin 1 w", "publish 171"));
  EXPECT_THAT(output_.metadata, IsSupersetOf({Pair("job", "capstan"), Pair("step", "9"),
                                              Pair("test_accuracy", "0.7")}));
  Heartbeat(kServer);
  EXPECT_FALSE(DoFileWork());
}

TEST_F(SavingTest, WorkersAreNotNeededForIt) {
  Evaluate();
  v1::ReportFailureRequest failure;
  failure.set_role(v1::HeartbeatRequest::WORKER);
  ASSERT_TRUE(state_.ReportFailure(failure).ok());
  for (uint32_t id : {0, 1}) state_.DeclareDead(Worker(id));
  Heartbeat(kServer);
  EXPECT_TRUE(DoFileWork());
  EXPECT_EQ(state_.view().phase(), v1::DONE);
}

TEST_F(SavingTest, AServerIsNeededForIt) {
  Evaluate();
  state_.DeclareDead(kServer);
  EXPECT_EQ(state_.view().phase(), v1::FAILED);
  EXPECT_FALSE(DoFileWork());
}

TEST_F(SavingTest, AFileThatCannotBeMadeEndsTheJobBeforeTheTraining) {
  output_.begun = absl::ResourceExhaustedError("m: no space");
  RegisterAll();
  EXPECT_TRUE(DoFileWork());
  EXPECT_EQ(state_.view().phase(), v1::FAILED);
  EXPECT_EQ(state_.view().reason(), "--output: m: no space");
}

TEST_F(SavingTest, AFileThatCannotBePublishedFailsTheJob) {
  output_.published = absl::DataLossError("m: wrong");
  Evaluate();
  Heartbeat(kServer);
  EXPECT_TRUE(DoFileWork());
  EXPECT_EQ(state_.view().phase(), v1::FAILED);
  EXPECT_EQ(state_.view().reason(), "--output: m: wrong");
}

TEST_F(SavingTest, AJobThatHasEndedDuringTheWorkStaysAsItIs) {
  RegisterAll();
  OutputPlan::Work work = state_.TakeFileWork();
  state_.Fail("interrupted");
  state_.EndFileWork(work(output_));
  EXPECT_EQ(state_.view().reason(), "interrupted");
}

}  // namespace
}  // namespace capstan
