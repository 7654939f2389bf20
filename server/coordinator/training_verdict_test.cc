#include "server/coordinator/training_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// With 10 equally frequent classes, the best constant guess has a loss of ln 10 = 2.303.
TrainingCourse Course(double first_loss, double largest_loss, double last_loss, double test_loss,
                      double test_accuracy) {
  TrainingCourse course;
  course.steps = 1000;
  course.first_loss = first_loss;
  course.largest_loss = largest_loss;
  course.last_loss = last_loss;
  course.test_loss = test_loss;
  course.test_accuracy = test_accuracy;
  course.test_samples = 360;
  course.guess_loss = std::log(10);
  course.guess_accuracy = 0.1;
  return course;
}

const TrainingCourse kGood = Course(2.1, 2.2, 0.001, 0.08, 0.98);
const TrainingCourse kDiverged = Course(2.4, 9, 8, 7, 0.3);
const TrainingCourse kDead = Course(5, 30, 2.31, 2.304, 0.1);  // up first, then nothing

TrainingCourse AfterSteps(int64_t steps, TrainingCourse course) {
  course.steps = steps;
  return course;
}

TEST(TrainingVerdictTest, TheDatasWarningTakesThePlaceOfAdvice) {
  TrainingCourse course = kDead;
  course.data_warning = "column 3 has values up to 1.7e+09";
  EXPECT_THAT(TrainingWarning(v1::JobSpec(), course),
              AllOf(HasSubstr("training has failed: "), HasSubstr("column 3 has values"),
                    Not(HasSubstr("--learning_rate"))));
  course = kGood;
  course.data_warning = "every label is 1";
  EXPECT_EQ(TrainingWarning(v1::JobSpec(), course), "every label is 1");
}

TEST(TrainingVerdictTest, ALossThatFellIsGood) {
  EXPECT_EQ(JudgeTraining(kGood), TrainingFailure::kNone);
  EXPECT_EQ(JudgeTraining(Course(2.3, 2.3, 1.9, 1.95, 0.35)), TrainingFailure::kNone) << "slowly";
  EXPECT_EQ(JudgeTraining(Course(20, 20, 1.9, 2, 0.3)), TrainingFailure::kNone) << "from far above";
  EXPECT_EQ(JudgeTraining(Course(2.3, 50, 0.5, 0.6, 0.9)), TrainingFailure::kNone) << "by a detour";
}

TEST(TrainingVerdictTest, ALossThatIsNotBelowTheStartHasFailed) {
  EXPECT_EQ(JudgeTraining(kDiverged), TrainingFailure::kNotBelowStart);
  EXPECT_EQ(JudgeTraining(Course(2.35, 3, 2.4, 2.5, 0.3)), TrainingFailure::kNotBelowStart)
      << "although a third is right";
  EXPECT_EQ(JudgeTraining(Course(2.34, 2.4, 2.33, 2.33, 0.17)), TrainingFailure::kNotBelowStart)
      << "never moved, from first values that happen to be lucky";
}

TEST(TrainingVerdictTest, ALossOfAConstantGuessHasFailed) {
  EXPECT_EQ(JudgeTraining(kDead), TrainingFailure::kConstantGuess);
  EXPECT_EQ(JudgeTraining(Course(4, 4, 2.28, 2.29, 0.12)), TrainingFailure::kConstantGuess);
  EXPECT_EQ(JudgeTraining(Course(200, 200, 10, 12, 0.3)), TrainingFailure::kConstantGuess)
      << "worse than one, although below the start";
  EXPECT_EQ(JudgeTraining(Course(2.5, 3, 1.99, 2.72, 0.084)), TrainingFailure::kConstantGuess)
      << "up and down, and a test at the wrong moment";
}

TEST(TrainingVerdictTest, AboutAConstantGuessIsGoodWhenTheAnswersAreBetter) {
  EXPECT_EQ(JudgeTraining(Course(4, 4, 2.3, 2.4, 0.4)), TrainingFailure::kNone);
  // 3 standard errors of 360 samples are 4.7 %.
  EXPECT_EQ(JudgeTraining(Course(4, 4, 2.3, 2.3, 0.14)), TrainingFailure::kConstantGuess);
  EXPECT_EQ(JudgeTraining(Course(4, 4, 2.3, 2.3, 0.15)), TrainingFailure::kNone);
}

TEST(TrainingVerdictTest, RareLabelsAreLearntWithoutABetterAccuracy) {
  // 1 % of the samples are positive: always "no" is right in 99 %, with a loss of 0.056.
  TrainingCourse course = Course(0.3, 0.3, 0.03, 0.035, 0.99);
  course.guess_accuracy = 0.99;
  course.guess_loss = 0.056;
  EXPECT_EQ(JudgeTraining(course), TrainingFailure::kNone);
  course.last_loss = course.test_loss = 0.056;
  EXPECT_EQ(JudgeTraining(course), TrainingFailure::kConstantGuess);
}

TEST(TrainingVerdictTest, ANoisyLastBatchIsNoFailure) {
  EXPECT_EQ(JudgeTraining(Course(2.3, 6, 6, 0.3, 0.92)), TrainingFailure::kNone);
}

TEST(TrainingVerdictTest, DataLearntByHeartAreNoFailure) {
  EXPECT_EQ(JudgeTraining(Course(2.3, 2.3, 0.0001, 4, 0.1)), TrainingFailure::kNone);
}

TEST(TrainingVerdictTest, ATestSetTooSmallToJudgeByIsNoFailure) {
  // 3 standard errors above the share of the commonest label are more than 100 %.
  TrainingCourse course = Course(0.3, 0.3, 0.09, 0.136, 0.97);
  course.test_samples = 100;
  course.guess_accuracy = 0.97;
  course.guess_loss = 0.135;
  EXPECT_EQ(JudgeTraining(course), TrainingFailure::kNone);
  course.last_loss = 0.135;
  EXPECT_EQ(JudgeTraining(course), TrainingFailure::kConstantGuess);
}

TEST(TrainingVerdictTest, DataPartlyLearntByHeartAreNoFailure) {
  TrainingCourse course = Course(0.69, 0.7, 0.45, 0.72, 0.55);  // of 2 classes
  course.test_samples = 100;
  course.guess_accuracy = 0.5;
  course.guess_loss = std::log(2);
  EXPECT_EQ(JudgeTraining(course), TrainingFailure::kNone);
}

TEST(TrainingVerdictTest, TrainingThatBeganWellFailsWhenItEndsMuchWorse) {
  EXPECT_EQ(JudgeTraining(Course(0.05, 0.06, 0.05, 0.06, 0.99)), TrainingFailure::kNone)
      << "as good";
  EXPECT_EQ(JudgeTraining(Course(0.05, 0.2, 0.2, 0.2, 0.95)), TrainingFailure::kNone)
      << "still good";
  EXPECT_EQ(JudgeTraining(Course(1.2, 1.4, 1.3, 1.3, 0.6)), TrainingFailure::kNone)
      << "at what can be had from noisy labels";
  EXPECT_EQ(JudgeTraining(Course(0.05, 9, 1.5, 1.5, 0.6)), TrainingFailure::kNotBelowStart);
}

TEST(TrainingVerdictTest, AFewStepsAreNotJudged) {
  for (const TrainingCourse& course : {kDiverged, kDead}) {
    EXPECT_EQ(JudgeTraining(AfterSteps(1, course)), TrainingFailure::kNone);
    EXPECT_EQ(JudgeTraining(AfterSteps(49, course)), TrainingFailure::kNone);
    EXPECT_NE(JudgeTraining(AfterSteps(50, course)), TrainingFailure::kNone);
  }
}

TEST(TrainingVerdictTest, WhatIsNotFiniteHasFailedAfterAnyNumberOfSteps) {
  for (const double bad : {kNaN, kInfinity}) {
    EXPECT_EQ(JudgeTraining(AfterSteps(1, Course(2, 2, bad, 1, 0.5))), TrainingFailure::kNotFinite);
    EXPECT_EQ(JudgeTraining(AfterSteps(1, Course(2, 2, 1, bad, 0.5))), TrainingFailure::kNotFinite);
  }
}

TEST(TrainingVerdictTest, WithoutALossToCompareWithThereIsNoVerdict) {
  TrainingCourse course = kDead;
  course.guess_loss = 0;  // also that of one label alone
  EXPECT_EQ(JudgeTraining(course), TrainingFailure::kNone);
  course = kDiverged;
  course.first_loss.reset();
  EXPECT_EQ(JudgeTraining(course), TrainingFailure::kConstantGuess);
}

v1::JobSpec Job(v1::ConsistencySpec::Mode mode) {
  v1::JobSpec job;
  job.mutable_optimizer()->set_learning_rate(0.05);
  job.mutable_consistency()->set_mode(mode);
  return job;
}

TEST(TrainingVerdictTest, GoodTrainingHasNoWarning) {
  EXPECT_EQ(TrainingWarning(Job(v1::ConsistencySpec::SSP), kGood), "");
}

TEST(TrainingVerdictTest, TheWarningSaysWhatHappenedAndWhatToTry) {
  EXPECT_EQ(TrainingWarning(Job(v1::ConsistencySpec::BSP), kDiverged),
            "training has failed: the loss was 2.4 in the first steps and is 7 at the end. Its "
            "updates were too large: try a smaller --learning_rate, such as 0.005; features that "
            "are very large (--feature_scale) do the same.");
  EXPECT_THAT(TrainingWarning(Job(v1::ConsistencySpec::BSP), Course(2, 2, kNaN, 1, 0.5)),
              HasSubstr("the loss at the end is not finite. Its updates were too large"));
}

// Its learning rate is its own, and so are its data.
TEST(TrainingVerdictTest, AProgramIsToldOfNoFlagThatItLacks) {
  v1::JobSpec job = Job(v1::ConsistencySpec::SSP);
  job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
  EXPECT_EQ(TrainingWarning(job, Course(2, 2, kNaN, 1, 0.5)),
            "training has failed: the loss at the end is not finite. Its updates were too large: "
            "try a smaller learning rate in the program, a smaller --staleness or "
            "--consistency=bsp.");
}

TEST(TrainingVerdictTest, ALossThatRoseCallsForSmallerStepsAndOneThatNeverMovedForLargerOnes) {
  const v1::JobSpec job = Job(v1::ConsistencySpec::BSP);
  EXPECT_THAT(TrainingWarning(job, kDead), HasSubstr("smaller --learning_rate, such as 0.005"));
  EXPECT_THAT(TrainingWarning(job, Course(1.95, 2.4, 2.31, 2.31, 0.08)), HasSubstr("smaller"))
      << "learnt a little, and lost it";
  const TrainingCourse still = Course(2.34, 2.4, 2.33, 2.33, 0.17);
  EXPECT_THAT(
      TrainingWarning(job, still),
      AllOf(HasSubstr("more --epochs or a larger --learning_rate, such as 0.5"),
            HasSubstr("whether the features tell the labels apart"), Not(HasSubstr("smaller"))));
  v1::JobSpec with_steps = job;
  with_steps.mutable_training()->set_steps(60);
  EXPECT_THAT(TrainingWarning(with_steps, still), HasSubstr("more --steps"));
}

TEST(TrainingVerdictTest, StaleValuesAreNamedWhereThereAreSome) {
  EXPECT_THAT(TrainingWarning(Job(v1::ConsistencySpec::SSP), kDiverged),
              HasSubstr("such as 0.005, a smaller --staleness or --consistency=bsp; "));
  EXPECT_THAT(TrainingWarning(Job(v1::ConsistencySpec::ASYNC), kDiverged),
              HasSubstr("such as 0.005 or --consistency=bsp; "));
  v1::JobSpec summed = Job(v1::ConsistencySpec::ASYNC);
  summed.mutable_consistency()->set_update_scale(v1::ConsistencySpec::SUM);
  EXPECT_THAT(TrainingWarning(summed, kDiverged),
              HasSubstr("such as 0.005, --update_scale=staleness or --consistency=bsp; "));
}

}  // namespace
}  // namespace capstan
