#include "server/coordinator/members/member_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

v1::ReportFailureRequest Failure(Role role, bool before_registering = false) {
  v1::ReportFailureRequest failure;
  failure.set_role(role);
  failure.set_before_registering(before_registering);
  failure.set_reason("it broke");
  return failure;
}

// Two workers.
ExampleFacts Training(bool stays = false, bool allows_other_bits = true) {
  v1::JobSpec job;
  job.set_stay(stays);
  job.mutable_membership()->set_allow_other_bits(allows_other_bits);
  return ExampleFacts(/*num_servers=*/1, /*num_workers=*/2, job);
}

// Both workers have done `steps_done` of 9 steps, all under BSP.
void SetSteps(ExampleFacts& example, int64_t steps_done) {
  example.facts.view.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  for (const uint32_t id : {0, 1}) {
    example.Worker(id).progress.set_steps_total(9);
    example.Worker(id).progress.set_steps_done(steps_done);
  }
  example.facts.members.WriteTo(example.facts.view);
}

MemberLoss Lose(ExampleFacts& example, uint32_t worker) {
  example.Worker(worker).end = "it is gone";
  return LossOfWorker(worker, "worker 1 is gone", "gone", example.facts);
}

TEST(MemberLossTest, TheOthersGoOnWithOtherBitsWhileThereAreStepsUnderBsp) {
  ExampleFacts example = Training();
  SetSteps(example, /*steps_done=*/4);
  const MemberLoss loss = Lose(example, 1);
  EXPECT_FALSE(loss.fails_job);
  EXPECT_TRUE(loss.changes_bits);
  EXPECT_EQ(loss.event.text, "worker 1 is gone; the others go on");
  EXPECT_EQ(loss.event.reason, "gone");
  EXPECT_EQ(loss.event.step, 4);
  ExampleFacts done = Training();
  SetSteps(done, /*steps_done=*/9);
  EXPECT_FALSE(Lose(done, 1).changes_bits);
}

TEST(MemberLossTest, AWorkerThatHadDoneItsStepsChangesNoBitsThoughOthersHaveSomeLeft) {
  ExampleFacts example = Training(/*stays=*/false, /*allows_other_bits=*/false);
  SetSteps(example, /*steps_done=*/4);
  example.Worker(1).progress.set_steps_done(9);
  const MemberLoss loss = Lose(example, 1);
  EXPECT_FALSE(loss.fails_job) << loss.event.text;
  EXPECT_FALSE(loss.changes_bits);
}

TEST(MemberLossTest, AHeldPlaceMayStillGetAWorkerSoNobodyIsTheLastBesideIt) {
  ExampleFacts example = Training();
  SetSteps(example, /*steps_done=*/4);
  example.Worker(0).end = "it is gone";
  example.Worker(0).holds_place = true;
  EXPECT_FALSE(Lose(example, 1).fails_job);
}

TEST(MemberLossTest, AJobThatMayNotHaveOtherBitsFails) {
  ExampleFacts example = Training(/*stays=*/false, /*allows_other_bits=*/false);
  SetSteps(example, /*steps_done=*/4);
  const MemberLoss loss = Lose(example, 1);
  EXPECT_TRUE(loss.fails_job);
  EXPECT_THAT(loss.event.text, HasSubstr("with other bits only (--allow_other_bits)"));
  ExampleFacts left = Training(/*stays=*/true, /*allows_other_bits=*/false);
  SetSteps(left, /*steps_done=*/4);
  left.Worker(1).is_needless = true;
  EXPECT_FALSE(Lose(left, 1).fails_job) << "it was not lost";
}

TEST(MemberLossTest, AJobWhoseProgramsRunAnOptimizerFails) {
  v1::JobSpec job;
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  v1::RegisterWorkerRequest worker;
  v1::TableSpec& table = *worker.add_tables();
  table.set_name("w");
  table.add_shape(3);
  table.set_replies_mean(true);
  constexpr uint64_t kSliceBytes = 1 << 20;
  for (const uint32_t lost : {0, 1}) {
    for (const int64_t steps_done : {4, 9}) {
      ExampleFacts example(/*num_servers=*/1, /*num_workers=*/2, job);
      ASSERT_TRUE(example.facts.tables.Take(worker, /*is_first=*/true, kSliceBytes).ok());
      SetSteps(example, steps_done);
      const MemberLoss loss = Lose(example, lost);
      EXPECT_EQ(loss.fails_job, lost == 0 || steps_done < 9) << lost << " " << steps_done;
      if (!loss.fails_job) continue;
      EXPECT_THAT(loss.event.text, HasSubstr("the programs run the optimizer, and no other"));
    }
  }
}

TEST(MemberLossTest, WithoutTheLastWorkerOnlyAJobThatStaysGoesOn) {
  for (const bool stays : {false, true}) {
    ExampleFacts example = Training(stays);
    SetSteps(example, /*steps_done=*/4);
    example.Worker(0).end = "it is gone";
    const MemberLoss loss = Lose(example, 1);
    EXPECT_EQ(loss.fails_job, !stays);
    EXPECT_THAT(loss.event.text, HasSubstr(stays ? "the job stays, and waits for other workers"
                                                 : "was the last live worker"));
  }
}

TEST(MemberLossTest, ALossBeforeTheTrainingFailsTheJob) {
  for (const v1::Phase phase : {v1::REGISTERING, v1::PLACING}) {
    ExampleFacts example = Training(/*stays=*/true);
    example.facts.view.set_phase(phase);
    const MemberLoss loss = Lose(example, 1);
    EXPECT_TRUE(loss.fails_job);
    EXPECT_THAT(loss.event.text, HasSubstr("worker 1 is gone before training began"));
  }
}

TEST(MemberLossTest, AFailureFailsTheJobUnlessTheResultIsThere) {
  ExampleFacts example;
  EXPECT_TRUE(LossByFailure(Failure(v1::HeartbeatRequest::WORKER), example.facts).fails_job);
  example.facts.result.emplace();
  const MemberLoss late = LossByFailure(Failure(v1::HeartbeatRequest::WORKER), example.facts);
  EXPECT_FALSE(late.fails_job);
  EXPECT_EQ(late.event.text, "worker 0: it broke; its work is done");
  EXPECT_EQ(late.event.reason, "it broke");
  const MemberLoss server = LossByFailure(Failure(v1::HeartbeatRequest::SERVER), example.facts);
  EXPECT_TRUE(server.fails_job) << "it still has to write";
  EXPECT_EQ(server.event.text, "server 0: it broke");
}

TEST(MemberLossTest, AFailureBeforeRegisteringMattersOnlyIfAPlaceIsFree) {
  const v1::ReportFailureRequest failure = Failure(v1::HeartbeatRequest::WORKER, true);
  ExampleFacts all_here;
  all_here.facts.view.set_phase(v1::REGISTERING);
  const MemberLoss one_too_many = LossByFailure(failure, all_here.facts);
  EXPECT_FALSE(one_too_many.fails_job);
  EXPECT_EQ(one_too_many.event.text, "a worker failed before it registered: it broke");
  FakeClock clock;
  JobFacts nobody_here(v1::JobSpec(), clock);
  nobody_here.view.set_phase(v1::REGISTERING);
  EXPECT_TRUE(LossByFailure(failure, nobody_here).fails_job);
}

ServerEnd Silent() { return {"was declared dead", "has been silent for 10 s (lease)", "silent"}; }

v1::JobSpec WithReplicas(uint32_t replicas) {
  v1::JobSpec job;
  job.mutable_cluster()->set_replicas(replicas);
  return job;
}

TEST(MemberLossTest, ALostServerFailsTheJobAndTheTextSaysHowItGoesOn) {
  RestorePoint restored;
  restored.path = "dir/c1";
  const ExampleFacts anew, goes_on(1, 1, {}, restored);
  const MemberLoss loss = LossOfServer(0, Silent(), 0, anew.facts, "");
  EXPECT_TRUE(loss.fails_job);
  EXPECT_EQ(
      loss.event.text,
      "server 0 (host:1) has been silent for 10 s (lease); its shards are lost: see its log, "
      "and start the job again; with two servers and --replicas=2 the job would have gone on");
  EXPECT_THAT(LossOfServer(0, Silent(), 0, goes_on.facts, "").event.text,
              HasSubstr("and restore the same checkpoint again"));
  EXPECT_THAT(LossOfServer(0, Silent(), 0, goes_on.facts, "dir/c2").event.text,
              HasSubstr("and go on with --restore=latest"));
}

TEST(MemberLossTest, ALostServerWithoutCopiesSaysThatReplicasWouldHaveHelpedOnceTheJobTrains) {
  ExampleFacts example(/*num_servers=*/2);
  EXPECT_THAT(LossOfServer(0, Silent(), 3, example.facts, "").event.text,
              EndsWith("its shards are lost: see its log, and start the job again; with "
                       "--replicas=2 the job would have gone on"));
  example.facts.view.set_phase(v1::PLACING);
  EXPECT_THAT(LossOfServer(0, Silent(), 3, example.facts, "").event.text,
              EndsWith("and start the job again"));
}

TEST(MemberLossTest, ALostServerWhoseCopiesWereNotWholeSaysOfHowManyShardsNoneIsLeft) {
  ExampleFacts example(/*num_servers=*/2, /*num_workers=*/1, WithReplicas(2));
  EXPECT_EQ(LossOfServer(1, Silent(), 12, example.facts, "").event.text,
            "server 1 (host:1) has been silent for 10 s (lease); no whole copy is left of 12 of "
            "its shards: see its log, and start the job again");
  example.facts.view.set_phase(v1::PLACING);
  EXPECT_THAT(LossOfServer(1, Silent(), 12, example.facts, "").event.text,
              HasSubstr("; its shards are lost: "));
}

TEST(MemberLossTest, ALostServerWhoseCopiesWereWholeSaysWhoHasItsShards) {
  ExampleFacts example(/*num_servers=*/3, /*num_workers=*/1, WithReplicas(2));
  example.Server(0).end = "it is gone";
  const MemberLoss loss = LossOfServerWithCopies(0, Silent(), {{1, 12}, {2, 3}},
                                                 /*copies_not_whole=*/20, example.facts);
  EXPECT_FALSE(loss.fails_job);
  EXPECT_FALSE(loss.changes_bits);
  EXPECT_TRUE(loss.event.is_warning);
  EXPECT_EQ(loss.event.reason, "silent");
  EXPECT_EQ(loss.event.text,
            "server 0 has been silent for 10 s (lease): 12 of its shards are on server 1 now, 3 on "
            "server 2; nothing is lost; one copy is left of 20 shards until others are made");
  example.Server(1).end = "it is gone";
  EXPECT_EQ(
      LossOfServerWithCopies(1, Silent(), {{2, 1}}, /*copies_not_whole=*/1, example.facts)
          .event.text,
      "server 1 has been silent for 10 s (lease): 1 of its shards is on server 2 now; nothing "
      "is lost; one copy is left of 1 shard until another server takes its place");
  EXPECT_EQ(
      LossOfServerWithCopies(1, Silent(), {}, /*copies_not_whole=*/0, example.facts).event.text,
      "server 1 has been silent for 10 s (lease): it had copies only; nothing is lost");
}

}  // namespace
}  // namespace capstan
