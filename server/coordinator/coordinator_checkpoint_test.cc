#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/scripted_job.h"

// Checkpoints of a running job, as its coordinator leads them.
namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What a FakeFolder has done, and what it is told to do.
struct Disk {
  absl::Status created;
  std::function<void()> on_create;
  int folders = 0;
  std::vector<v1::CheckpointManifest> manifests;
};

class FakeFolder : public CheckpointStorage {
 public:
  explicit FakeFolder(Disk* disk) : disk_(*disk) {}

  uint64_t token() const override { return 5; }
  std::string PathOf(const std::string& name) const override { return name; }
  absl::StatusOr<std::string> Create() override {
    if (disk_.on_create) disk_.on_create();
    if (!disk_.created.ok()) return disk_.created;
    return absl::StrCat("c", ++disk_.folders);
  }
  absl::Status Publish(const std::string& name, const v1::CheckpointManifest& manifest) override {
    // A real folder refuses a manifest that nobody can read.
    absl::Status readable = DecodeManifest(EncodeManifest(manifest), name).status();
    if (readable.ok()) disk_.manifests.push_back(manifest);
    return readable;
  }
  absl::Status RemoveOld(uint32_t) override { return absl::OkStatus(); }

 private:
  Disk& disk_;
};

using Answer = std::shared_ptr<std::optional<absl::StatusOr<v1::CheckpointReply>>>;

Answer Ask(ScriptedJob& job) {
  auto answer = std::make_shared<std::optional<absl::StatusOr<v1::CheckpointReply>>>();
  job.coordinator().Checkpoint({}, [answer](absl::StatusOr<v1::CheckpointReply> reply) {
    ASSERT_FALSE(answer->has_value()) << "answered twice";
    *answer = std::move(reply);
  });
  return answer;
}

v1::Progress StepsDone(int64_t steps) {
  v1::Progress progress;
  progress.set_steps_done(steps);
  progress.set_steps_total(100);
  progress.set_samples(static_cast<uint64_t>(10 * steps));
  return progress;
}

// The server has acted on the newest view.
absl::Status Report(ScriptedJob& job, uint32_t server, const v1::CheckpointPart& part,
                    const std::vector<v1::NextStep>& next_steps = {},
                    std::optional<int64_t> held_for_change = {}) {
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::SERVER);
  request.set_id(server);
  request.set_incarnation(ScriptedJob::IncarnationOf(Server(server)));
  request.set_view_version(job.View().version());
  *request.mutable_checkpoint() = part;
  request.mutable_next_steps()->Assign(next_steps.begin(), next_steps.end());
  if (held_for_change.has_value()) {
    request.mutable_held_step()->set_consistency_change(job.View().consistency_change());
    request.mutable_held_step()->set_step(*held_for_change);
  }
  const auto status = std::make_shared<absl::Status>();
  job.coordinator().Heartbeat(request, [status](const absl::StatusOr<v1::HeartbeatReply>& reply) {
    *status = reply.status();
  });
  return *status;  // Only a refused heartbeat is answered at once.
}

void Hold(ScriptedJob& job, uint32_t server, int64_t step) {
  v1::CheckpointPart part;
  part.set_number(job.View().checkpoint().number());
  part.set_held_step(step);
  EXPECT_TRUE(Report(job, server, part).ok());
}

void HoldAll(ScriptedJob& job, int64_t step) {
  for (uint32_t server = 0; server < 2; ++server) Hold(job, server, step);
}

v1::WorkerSteps Steps(uint32_t worker, int64_t least, int64_t most) {
  v1::WorkerSteps steps;
  steps.set_worker(worker);
  steps.set_least(least);
  steps.set_most(most);
  return steps;
}

// The server has written its shards, with these steps of workers.
v1::CheckpointPart Ended(const v1::JobView& view, uint32_t server,
                         const std::vector<v1::WorkerSteps>& workers) {
  v1::CheckpointPart part;
  part.set_number(view.checkpoint().number());
  part.set_has_ended(true);
  for (int shard = 0; shard < view.server_of_shard_size(); ++shard) {
    if (view.server_of_shard(shard) != server) continue;
    v1::ShardFile& file = *part.add_files();
    file.set_shard(static_cast<uint32_t>(shard));
    file.set_bytes(100 + static_cast<uint64_t>(shard));
  }
  part.mutable_workers()->Assign(workers.begin(), workers.end());
  for (const v1::WorkerSteps& worker : workers) {
    part.set_end_step(std::max(part.end_step(), worker.most()));
  }
  return part;
}

void EndAll(ScriptedJob& job, const std::vector<v1::WorkerSteps>& workers) {
  const v1::JobView view = job.View();
  for (uint32_t server = 0; server < 2; ++server) {
    EXPECT_TRUE(Report(job, server, Ended(view, server, workers)).ok());
  }
}

class CoordinatorCheckpointTest : public testing::Test {
 protected:
  static v1::JobSpec Job(uint64_t steps) {
    v1::JobSpec job = ScriptedJob::Job();
    job.mutable_checkpoint()->set_dir("dir");
    job.mutable_checkpoint()->set_steps(steps);
    return job;
  }
  // Training, with workers at step 0 of 100. Without `steps`, checkpoints are on request only.
  std::unique_ptr<ScriptedJob> Train(const v1::JobSpec& spec) {
    auto job = std::make_unique<ScriptedJob>(spec, std::make_unique<FakeFolder>(&disk_));
    job->StartTraining();
    for (uint32_t id = 0; id < 2; ++id) Do(*job, id, 0);
    return job;
  }
  std::unique_ptr<ScriptedJob> Train(uint64_t steps = 0) { return Train(Job(steps)); }

  static void Do(ScriptedJob& job, uint32_t worker, int64_t steps_done) {
    job.Heartbeat(Worker(worker), job.View().version(), StepsDone(steps_done));
  }

  Disk disk_;
};

TEST_F(CoordinatorCheckpointTest, ARequestedOneIsAgreedOnThenWrittenThenCompleted) {
  const auto job = Train();
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
  const Answer answer = Ask(*job);
  EXPECT_EQ(disk_.folders, 1);
  v1::CheckpointOrder order = job->View().checkpoint();
  EXPECT_EQ(order.number(), 1u);
  EXPECT_EQ(order.name(), "") << "servers hold back first";
  Hold(*job, 0, 7);
  EXPECT_EQ(job->View().checkpoint().name(), "");
  Hold(*job, 1, 9);
  order = job->View().checkpoint();
  EXPECT_EQ(order.name(), "c1");
  EXPECT_EQ(order.step(), 9);
  EXPECT_FALSE(answer->has_value());
  for (uint32_t worker = 0; worker < 2; ++worker) Do(*job, worker, 10);
  job->clock().Advance(absl::Seconds(3));
  EndAll(*job, {Steps(0, 9, 9), Steps(1, 9, 9)});
  EXPECT_EQ(job->View().checkpoint().number(), 0u) << "servers have nothing more to do";
  ASSERT_TRUE(answer->has_value() && (*answer)->ok());
  EXPECT_EQ((**answer)->path(), "dir/c1");
  EXPECT_EQ((**answer)->step(), 9);
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.step(), 9);
  EXPECT_EQ(manifest.end_step(), 9);
  EXPECT_EQ(manifest.steps_total(), 100);
  EXPECT_EQ(manifest.training_seconds(), 3);
  EXPECT_EQ(manifest.tables(0).name(), "w");
  EXPECT_EQ(manifest.consistency(0).consistency().mode(), v1::ConsistencySpec::BSP);
  ASSERT_EQ(manifest.files_size(), 4);
  for (uint32_t shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(manifest.files(static_cast<int>(shard)).shard(), shard);
    EXPECT_EQ(manifest.files(static_cast<int>(shard)).bytes(), 100 + shard);
  }
  EXPECT_EQ(manifest.workers(1).first_step(), 9);
  EXPECT_EQ(manifest.workers(1).progress().samples(), 90u) << "of 100 at step 10";
  EXPECT_EQ(job->Status().checkpoint().newest(), "dir/c1");
  EXPECT_EQ(job->Status().checkpoint().error(), "");
}

TEST_F(CoordinatorCheckpointTest, APartThatIsToldTwiceCountsOnce) {
  const auto job = Train();
  Ask(*job);
  HoldAll(*job, 9);
  const v1::JobView view = job->View();
  const v1::CheckpointPart part = Ended(view, 0, {Steps(0, 9, 9), Steps(1, 9, 9)});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Report(*job, 0, part).ok());
  EXPECT_THAT(disk_.manifests, IsEmpty());
  const v1::CheckpointPart other = Ended(view, 1, {Steps(0, 9, 9), Steps(1, 9, 9)});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Report(*job, 1, other).ok());
  EXPECT_THAT(disk_.manifests, SizeIs(1));
}

TEST_F(CoordinatorCheckpointTest, UnderSspAWorkerGoesOnAtTheFirstStepThatSomeSliceLacks) {
  v1::JobSpec spec = Job(0);
  spec.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  const auto job = Train(spec);
  Ask(*job);
  HoldAll(*job, 30);
  const v1::JobView view = job->View();
  ASSERT_TRUE(Report(*job, 0, Ended(view, 0, {Steps(0, 12, 13), Steps(1, 20, 24)})).ok());
  ASSERT_TRUE(Report(*job, 1, Ended(view, 1, {Steps(0, 11, 14), Steps(1, 21, 22)})).ok());
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.workers(0).first_step(), 11);
  EXPECT_EQ(manifest.workers(1).first_step(), 20);
  EXPECT_EQ(manifest.step(), 11) << "the slowest worker's";
  EXPECT_EQ(manifest.end_step(), 24) << "no slice has an update of it";
}

// Worker 1 dies, and process 301 takes its place.
class CoordinatorCheckpointLossTest : public CoordinatorCheckpointTest {
 protected:
  static void LoseWorker1(ScriptedJob& job) {
    job.PassTime(absl::Seconds(11), {Server(0), Server(1), Worker(0)});
    ASSERT_FALSE(job.View().workers(1).is_live());
  }
  static void Replace(ScriptedJob& job) {
    v1::RegisterWorkerRequest request;
    request.set_incarnation(301);
    request.set_may_enter_late(true);
    *request.add_tables() = ScriptedJob::Tables({64})[0];
    job.coordinator().RegisterWorker(request, [](const absl::StatusOr<v1::RegisterReply>& reply) {
      ASSERT_TRUE(reply.ok()) << reply.status();
    });
    ASSERT_TRUE(job.View().workers(1).is_entering());
  }
  static void Enter(ScriptedJob& job, int64_t first_step) {
    v1::NextStep next;
    next.set_worker(1);
    next.set_incarnation(301);
    next.set_step(first_step);
    for (uint32_t server = 0; server < 2; ++server) {
      ASSERT_TRUE(Report(job, server, {}, {next}).ok());
    }
    ASSERT_FALSE(job.View().workers(1).is_entering());
  }
};

TEST_F(CoordinatorCheckpointLossTest, InThePlaceOfALostWorkerAnotherGoesOnWhereNoSliceHasItsSteps) {
  const auto job = Train();
  Do(*job, 1, 20);
  LoseWorker1(*job);
  Ask(*job);
  HoldAll(*job, 30);
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 19, 26)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.workers(1).first_step(), 26);
  EXPECT_EQ(manifest.step(), 30) << "of the live ones";
  EXPECT_EQ(manifest.workers_lost(), 1u);
  EXPECT_THAT(manifest.replaced_workers(), IsEmpty());
}

TEST_F(CoordinatorCheckpointLossTest, AWorkerThatEntersHasNoFirstStepOfItsOwnYet) {
  const auto job = Train();
  Do(*job, 1, 20);
  LoseWorker1(*job);
  Replace(*job);
  Ask(*job);
  HoldAll(*job, 30);
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 19, 26)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  const v1::CheckpointManifest& manifest = disk_.manifests[0];
  EXPECT_EQ(manifest.workers(1).first_step(), 26);
  EXPECT_EQ(manifest.step(), 30);
  EXPECT_EQ(manifest.workers_lost(), 1u);
  ASSERT_THAT(manifest.replaced_workers(), SizeIs(1));
  EXPECT_EQ(manifest.replaced_workers(0).samples(), 200u);
}

TEST_F(CoordinatorCheckpointLossTest, AReplacementGoesOnAtItsFirstStepIfServersHaveNotHeardOfIt) {
  const auto job = Train();
  LoseWorker1(*job);
  Replace(*job);
  Ask(*job);
  HoldAll(*job, 30);
  Enter(*job, /*first_step=*/40);
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 19, 30)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].workers(1).first_step(), 40);
  EXPECT_EQ(disk_.manifests[0].step(), 30);
  EXPECT_EQ(disk_.manifests[0].end_step(), 30);
}

TEST_F(CoordinatorCheckpointLossTest, WithoutAWorkerThatKnowsItsStepThereIsNoCheckpoint) {
  const auto job = Train();
  LoseWorker1(*job);
  Replace(*job);
  const Answer answer = Ask(*job);
  HoldAll(*job, 30);
  // Worker 0 dies too. The replacement is live.
  const absl::Time end = job->clock().Now() + absl::Seconds(11);
  while (job->clock().Now() < end) {
    v1::HeartbeatRequest request;
    request.set_role(v1::HeartbeatRequest::WORKER);
    request.set_id(1);
    request.set_incarnation(301);
    job->coordinator().Heartbeat(request, [](const absl::StatusOr<v1::HeartbeatReply>&) {});
    for (uint32_t server = 0; server < 2; ++server) job->Heartbeat(Server(server), 0);
    job->clock().Advance(absl::Seconds(1));
  }
  ASSERT_FALSE(job->View().workers(0).is_live());
  EndAll(*job, {Steps(0, 30, 30), Steps(1, 30, 30)});
  ASSERT_TRUE(answer->has_value());
  EXPECT_THAT(std::string((*answer)->status().message()), HasSubstr("first step"));
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
}

TEST_F(CoordinatorCheckpointTest, AServersErrorEndsTheCheckpointAndNotTheJob) {
  const auto job = Train(/*steps=*/40);
  HoldAll(*job, 5);
  const v1::JobView view = job->View();
  ASSERT_EQ(view.checkpoint().step(), 40);
  v1::CheckpointPart part;
  part.set_number(view.checkpoint().number());
  part.set_has_ended(true);
  part.set_error("c1/shard-00001: expected to write, got \"No space left\x1b on device\"");
  ASSERT_TRUE(Report(*job, 1, part).ok());
  EXPECT_EQ(job->Status().checkpoint().error(), "") << "the other server is still writing";
  ASSERT_TRUE(Report(*job, 0, Ended(view, 0, {Steps(0, 40, 40)})).ok());
  EXPECT_EQ(job->Status().checkpoint().error(),
            "server 1: c1/shard-00001: expected to write, got \"No space left\\x1b on device\"");
  EXPECT_THAT(disk_.manifests, IsEmpty());
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
  job->PassTime(absl::Seconds(2), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_EQ(job->View().checkpoint().number(), 2u) << "it is tried again";
}

TEST_F(CoordinatorCheckpointTest, AServerCannotWriteAnotherServersShards) {
  for (const uint32_t strange : {0u, 4u, 1u << 20, ~0u}) {
    const auto job = Train();
    const Answer answer = Ask(*job);
    HoldAll(*job, 9);
    const v1::JobView view = job->View();
    const uint32_t other = 1 - view.server_of_shard(0);
    v1::CheckpointPart part = Ended(view, other, {Steps(0, 9, 9)});
    part.add_files()->set_shard(strange);
    ASSERT_TRUE(Report(*job, other, part).ok());
    ASSERT_TRUE(Report(*job, 1 - other, Ended(view, 1 - other, {Steps(0, 9, 9)})).ok());
    ASSERT_TRUE(answer->has_value());
    EXPECT_THAT(std::string((*answer)->status().message()),
                HasSubstr(absl::StrCat("of its own shards, got one of shard ", strange)));
  }
}

TEST_F(CoordinatorCheckpointTest, AMissingFileOrAThousandWorkersDoNoHarm) {
  const auto job = Train();
  const Answer answer = Ask(*job);
  HoldAll(*job, 9);
  const v1::JobView view = job->View();
  v1::CheckpointPart part = Ended(view, 0, {Steps(0, 9, 9), Steps(1, 9, 9)});
  for (uint32_t worker = 2; worker < 1000; ++worker) *part.add_workers() = Steps(worker, 9, 9);
  part.mutable_files()->RemoveLast();
  ASSERT_TRUE(Report(*job, 0, part).ok());
  ASSERT_TRUE(Report(*job, 1, Ended(view, 1, {})).ok());
  ASSERT_TRUE(answer->has_value());
  EXPECT_THAT(std::string((*answer)->status().message()), HasSubstr("expected the file of shard"));
  EXPECT_EQ(job->View().phase(), v1::TRAINING);
}

TEST_F(CoordinatorCheckpointTest, AFolderThatCannotBeMadeIsToldAndTriedAgain) {
  disk_.created = absl::ResourceExhaustedError("no room");
  const auto job = Train(/*steps=*/40);
  EXPECT_EQ(job->Status().checkpoint().error(), "no room");
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
  disk_.created = absl::OkStatus();
  job->PassTime(absl::Seconds(2), {Server(0), Server(1), Worker(0), Worker(1)});
  EXPECT_NE(job->View().checkpoint().number(), 0u);
}

TEST_F(CoordinatorCheckpointTest, TheJobEndsAfterItsLastCheckpoint) {
  v1::JobSpec spec = Job(0);
  spec.mutable_checkpoint()->set_seconds(1e6);
  const auto job = Train(spec);
  for (uint32_t id = 0; id < 2; ++id) job->FinishSteps(id, 100);
  ASSERT_EQ(job->View().phase(), v1::EVALUATING);
  ASSERT_TRUE(job->ReportResult(0).ok());
  EXPECT_EQ(job->View().phase(), v1::EVALUATING);
  HoldAll(*job, 103);
  EXPECT_EQ(job->View().checkpoint().step(), 100);
  EndAll(*job, {Steps(0, 100, 100), Steps(1, 100, 100)});
  EXPECT_THAT(disk_.manifests, SizeIs(1));
  EXPECT_EQ(disk_.manifests[0].step(), 100);
  EXPECT_EQ(job->View().phase(), v1::DONE);
}

TEST_F(CoordinatorCheckpointTest, AnErrorInTheLastCheckpointDoesNotKeepTheJobFromItsEnd) {
  v1::JobSpec spec = Job(0);
  spec.mutable_checkpoint()->set_seconds(1e6);
  const auto job = Train(spec);
  for (uint32_t id = 0; id < 2; ++id) job->FinishSteps(id, 100);
  ASSERT_TRUE(job->ReportResult(0).ok());
  HoldAll(*job, 103);
  const uint64_t number = job->View().checkpoint().number();
  for (uint32_t server = 0; server < 2; ++server) {
    v1::CheckpointPart part;
    part.set_number(number);
    part.set_has_ended(true);
    part.set_error("full");
    ASSERT_TRUE(Report(*job, server, part).ok());
  }
  EXPECT_EQ(job->View().phase(), v1::DONE);
  EXPECT_EQ(job->Status().checkpoint().error(), "server 0: full");
}

TEST_F(CoordinatorCheckpointTest, AChangeOfTheConsistencyWaitsForTheStepAndTheOtherWayRound) {
  const auto job = Train();
  v1::SetConsistencyRequest change;
  change.mutable_change()->set_mode(v1::ConsistencySpec::ASYNC);
  const auto ignore = [](const absl::StatusOr<v1::SetConsistencyReply>&) {};
  Ask(*job);
  job->coordinator().SetConsistency(change, ignore);
  EXPECT_EQ(job->View().consistency_change(), 0u);
  EXPECT_EQ(job->View().checkpoint().name(), "");
  HoldAll(*job, 9);
  EXPECT_EQ(job->View().consistency_change(), 1u) << "its turn";
  EXPECT_EQ(job->View().checkpoint().step(), 9);
  EndAll(*job, {Steps(0, 9, 9), Steps(1, 9, 9)});
  ASSERT_THAT(disk_.manifests, SizeIs(1));
  Ask(*job);
  EXPECT_EQ(job->View().consistency_change(), 1u);
  EXPECT_EQ(job->View().checkpoint().number(), 0u) << "its turn comes later";
  for (uint32_t server = 0; server < 2; ++server) {
    ASSERT_TRUE(Report(*job, server, {}, {}, /*held_for_change=*/14).ok());
  }
  EXPECT_EQ(job->View().consistency(1).first_step(), 14);
  EXPECT_EQ(job->View().consistency_change(), 0u);
  EXPECT_EQ(job->View().checkpoint().number(), 2u);
}

TEST_F(CoordinatorCheckpointTest, BeforeItsBspBeginsAJobIsNotUnderBsp) {
  v1::JobSpec spec = Job(/*steps=*/10);
  spec.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  const auto job = Train(spec);
  v1::SetConsistencyRequest change;
  change.mutable_change()->set_mode(v1::ConsistencySpec::BSP);
  job->coordinator().SetConsistency(change, [](const absl::StatusOr<v1::SetConsistencyReply>&) {});
  for (uint32_t server = 0; server < 2; ++server) {
    ASSERT_TRUE(Report(*job, server, {}, {}, /*held_for_change=*/25).ok());
  }
  ASSERT_EQ(job->View().consistency(1).first_step(), 25);
  EXPECT_EQ(job->View().checkpoint().number(), 0u) << "the next one is due at step 10";
  for (uint32_t id = 0; id < 2; ++id) Do(*job, id, 25);
  EXPECT_EQ(job->View().checkpoint().number(), 1u);
}

TEST_F(CoordinatorCheckpointTest, OnlyAJobThatTrainsAndHasAFolderHasCheckpoints) {
  ScriptedJob placing(Job(0), std::make_unique<FakeFolder>(&disk_));
  placing.RegisterAll();
  EXPECT_THAT(std::string((*Ask(placing))->status().message()), HasSubstr("phase PLACING"));
  ScriptedJob without;
  without.StartTraining();
  EXPECT_THAT(std::string((*Ask(without))->status().message()), HasSubstr("--checkpoint_dir"));
}

TEST_F(CoordinatorCheckpointTest, WhoWaitsIsToldTheEndOfTheJobOrOfTheCoordinator) {
  const auto failed = Train();
  const Answer of_failed = Ask(*failed);
  failed->coordinator().Fail("interrupted");
  ASSERT_TRUE(of_failed->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*of_failed)->status()));
  const auto stopped = Train();
  const Answer of_stopped = Ask(*stopped);
  stopped->DestroyCoordinator();
  ASSERT_TRUE(of_stopped->has_value());
  EXPECT_TRUE(absl::IsCancelled((*of_stopped)->status()));
}

TEST_F(CoordinatorCheckpointTest, AJobThatEndsWhileItsFolderIsMadeHasNoOrder) {
  const auto job = Train();
  disk_.on_create = [&] { job->coordinator().Fail("interrupted"); };
  const Answer answer = Ask(*job);
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*answer)->status()));
  EXPECT_EQ(job->View().phase(), v1::FAILED);
  EXPECT_EQ(job->View().checkpoint().number(), 0u);
}

TEST_F(CoordinatorCheckpointTest, ARequestDuringTheWorkOnFilesIsAnsweredToo) {
  const auto job = Train();
  Answer second;
  disk_.on_create = [&] {
    if (second == nullptr) second = Ask(*job);
  };
  const Answer first = Ask(*job);
  EXPECT_EQ(disk_.folders, 1) << "one checkpoint serves both";
  HoldAll(*job, 9);
  EndAll(*job, {Steps(0, 9, 9), Steps(1, 9, 9)});
  ASSERT_TRUE(first->has_value() && second->has_value());
  EXPECT_EQ((**first)->path(), "dir/c1");
  EXPECT_EQ((**second)->path(), "dir/c1");
}

}  // namespace
}  // namespace capstan
