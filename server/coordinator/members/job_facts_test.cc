#include "server/coordinator/members/job_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

// A worker has done 10 steps, and two were lost.
RestorePoint Restored() {
  RestorePoint restored;
  restored.path = "dir/c1";
  restored.manifest.set_workers_lost(2);
  for (int worker = 0; worker < 2; ++worker) {
    v1::Progress& progress = *restored.manifest.add_workers()->mutable_progress();
    progress.set_steps_done(10);
    progress.set_samples(100);
  }
  return restored;
}

TEST(JobFactsTest, TheLastStepOfAJobThatStaysIsThatOfTheLatestWorkersRound) {
  for (const bool stays : {false, true}) {
    v1::JobSpec job;
    job.set_stay(stays);
    ExampleFacts example(/*num_servers=*/1, /*num_workers=*/1, job);
    EXPECT_EQ(example.facts.LastStep(), 0) << "nobody has said it";
    ASSERT_TRUE(example.facts.training.ReportSteps(0, 50).ok());
    example.facts.members.BeginAt(0, Step(60));
    EXPECT_EQ(example.facts.LastStep(), stays ? 100 : 50);
  }
}

TEST(JobFactsTest, AWorkersProgressHasThatBeforeTheCheckpoint) {
  ExampleFacts anew(/*num_servers=*/1, /*num_workers=*/2);
  ExampleFacts restored(/*num_servers=*/1, /*num_workers=*/2, {}, Restored());
  for (ExampleFacts* example : {&anew, &restored}) {
    example->Worker(1).progress.set_steps_done(15);
    example->Worker(1).progress.set_samples(50);
  }
  EXPECT_EQ(anew.facts.ProgressOf(1).samples(), 50u);
  EXPECT_EQ(restored.facts.ProgressOf(1).samples(), 150u);
  EXPECT_EQ(restored.facts.ProgressOf(1).steps_done(), 15);
}

TEST(JobFactsTest, LostWorkersCountAlsoThoseReplacedAndThoseBeforeTheCheckpoint) {
  ExampleFacts example(/*num_servers=*/1, /*num_workers=*/3, {}, Restored());
  EXPECT_EQ(example.facts.WorkersLost(), 2);
  for (const uint32_t id : {0, 1, 2}) example.Worker(id).end = "it is gone";
  example.Worker(2).is_needless = true;
  EXPECT_EQ(example.facts.WorkersLost(), 4) << "worker 2 was not lost";
  ASSERT_TRUE(example.facts.members.TakePlaceOfDeadWorker(Incarnation(7)).ok());
  EXPECT_EQ(example.facts.WorkersLost(), 4);
}

TEST(JobFactsTest, LiveMembersAreThoseOfTheView) {
  ExampleFacts example(/*num_servers=*/1, /*num_workers=*/2);
  example.Worker(0).end = "it is gone";
  example.facts.members.WriteTo(example.facts.view);
  EXPECT_THAT(example.facts.LiveMembers(), ElementsAre(MemberKey{v1::HeartbeatRequest::SERVER, 0},
                                                       MemberKey{v1::HeartbeatRequest::WORKER, 1}));
}

TEST(JobFactsTest, TheViewGetsTablesOnceTheyArePlaced) {
  ExampleFacts example;
  example.TakeTables(std::vector<uint64_t>{64});
  EXPECT_EQ(example.facts.ViewWithTables().tables_size(), 0);
  example.facts.view.set_epoch(1);
  EXPECT_EQ(example.facts.ViewWithTables().tables_size(), 1);
}

}  // namespace
}  // namespace capstan
