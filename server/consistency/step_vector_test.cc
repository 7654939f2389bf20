#include "server/consistency/step_vector.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

const WorkerId kA(0), kB(1), kC(2);

StepVector TwoWorkers() {
  StepVector steps;
  steps.Add({kA, kB});
  return steps;
}

TEST(StepVectorTest, MinStepIsThatOfTheSlowestWorker) {
  StepVector steps = TwoWorkers();
  EXPECT_EQ(steps.min_step(), Step(0));
  EXPECT_TRUE(steps.Advance(kA, Step(0)));
  EXPECT_TRUE(steps.Advance(kA, Step(1)));
  EXPECT_EQ(steps.min_step(), Step(0));
  EXPECT_TRUE(steps.Advance(kB, Step(0)));
  EXPECT_EQ(steps.min_step(), Step(1));
}

TEST(StepVectorTest, APushCountsOnce) {
  StepVector steps = TwoWorkers();
  EXPECT_TRUE(steps.Advance(kA, Step(0)));
  EXPECT_FALSE(steps.Advance(kA, Step(0)));
  EXPECT_TRUE(steps.Advance(kA, Step(1)));
  EXPECT_FALSE(steps.Advance(kA, Step(0)));
  EXPECT_EQ(steps.completed(kA), Step(2));
}

TEST(StepVectorTest, DeathOfTheSlowestLetsTheOthersGoOn) {
  StepVector steps = TwoWorkers();
  steps.Advance(kA, Step(0));
  steps.Remove(kB);
  EXPECT_EQ(steps.min_step(), Step(1));
}

TEST(StepVectorTest, JoinerEntersAtMinStepAndDoesNotLowerIt) {
  StepVector steps = TwoWorkers();
  for (int step = 0; step < 5; ++step) {
    steps.Advance(kA, Step(step));
    steps.Advance(kB, Step(step));
  }
  steps.Add({kC});
  EXPECT_EQ(steps.min_step(), Step(5));
  EXPECT_EQ(steps.completed(kC), Step(5));
  steps.Advance(kA, Step(5));
  steps.Advance(kB, Step(5));
  EXPECT_EQ(steps.min_step(), Step(5)) << "the joiner counts";
  EXPECT_FALSE(steps.Advance(kC, Step(4))) << "a push of before it joined is not new";
}

TEST(StepVectorTest, WorkerThatComesBackIsNotForgotten) {
  StepVector steps = TwoWorkers();
  steps.Advance(kB, Step(0));
  steps.Advance(kB, Step(1));
  steps.Remove(kB);
  steps.Advance(kA, Step(0));
  steps.Add({kB});
  EXPECT_FALSE(steps.Advance(kB, Step(1)));
  EXPECT_TRUE(steps.Advance(kB, Step(2)));
}

TEST(StepVectorTest, WorkersThatComeBackTogetherAreAllAwaited) {
  StepVector steps;
  steps.Restore({{kA, Step(8), /*is_live=*/false}, {kB, Step(4), /*is_live=*/false}}, Step(4));
  steps.Add({kA, kB});
  EXPECT_EQ(steps.min_step(), Step(4));
  EXPECT_EQ(steps.completed(kB), Step(4)) << "it will push step 4";
}

TEST(StepVectorTest, MinStepStaysWhenNobodyIsLeft) {
  StepVector steps = TwoWorkers();
  steps.Advance(kA, Step(0));
  steps.Advance(kB, Step(0));
  steps.Remove(kA);
  steps.Remove(kB);
  EXPECT_EQ(steps.min_step(), Step(1));
}

TEST(StepVectorTest, AWorkerThatComesBackEntersWhereItIsToldUnlessItIsPastThat) {
  StepVector steps = TwoWorkers();
  steps.Advance(kA, Step(0));
  steps.Advance(kB, Step(0));
  steps.Advance(kB, Step(1));
  steps.Remove(kB);
  steps.Add({kB});
  EXPECT_EQ(steps.completed(kB), Step(2)) << "its pushes stay known";
  steps.Enter(kB, Step(1));
  EXPECT_EQ(steps.completed(kB), Step(2));
  steps.Enter(kB, Step(4));
  EXPECT_EQ(steps.completed(kB), Step(4));
  EXPECT_EQ(steps.min_step(), Step(1));
}

TEST(StepVectorTest, AProcessBeginsWithTheStepItEntersAtUntilItsPushOfIt) {
  StepVector steps;
  steps.Add({WorkerId(0), WorkerId(1)});
  steps.Advance(WorkerId(1), Step(0));
  EXPECT_FALSE(steps.BeginsWith(WorkerId(1), Step(0)));
  steps.Enter(WorkerId(1), Step(0));
  EXPECT_TRUE(steps.BeginsWith(WorkerId(1), Step(0))) << "its push of it was applied before";
  EXPECT_EQ(steps.completed(WorkerId(1)), Step(1));
  EXPECT_FALSE(steps.BeginsWith(WorkerId(1), Step(1)));
  steps.EndFirstStep(WorkerId(1), Step(1));
  EXPECT_TRUE(steps.BeginsWith(WorkerId(1), Step(0))) << "it was another step's push";
  steps.EndFirstStep(WorkerId(1), Step(0));
  EXPECT_FALSE(steps.BeginsWith(WorkerId(1), Step(0)));
}

TEST(StepVectorTest, WhoIsAddedAnewOrRemovedBeginsWithNoStep) {
  StepVector steps;
  steps.Add({WorkerId(0)});
  steps.Enter(WorkerId(0), Step(3));
  steps.Add({WorkerId(0)});
  EXPECT_FALSE(steps.BeginsWith(WorkerId(0), Step(3)));
  steps.Enter(WorkerId(0), Step(3));
  steps.Remove(WorkerId(0));
  EXPECT_FALSE(steps.BeginsWith(WorkerId(0), Step(3)));
}

TEST(StepVectorTest, AWorkerIsLiveFromAddToRemove) {
  StepVector steps;
  EXPECT_FALSE(steps.is_live(WorkerId(0)));
  steps.Add({WorkerId(0)});
  EXPECT_TRUE(steps.is_live(WorkerId(0)));
  steps.Remove(WorkerId(0));
  EXPECT_FALSE(steps.is_live(WorkerId(0)));
  steps.Add({WorkerId(0)});
  EXPECT_TRUE(steps.is_live(WorkerId(0)));
}

}  // namespace
}  // namespace capstan
