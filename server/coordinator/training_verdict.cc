#include "server/coordinator/training_verdict.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job_properties.h"

namespace capstan {
namespace {

constexpr int64_t kFewestSteps = 50;

double LossAtTheEnd(const TrainingCourse& course) {
  return std::min(course.last_loss, course.test_loss);
}

bool IsFinite(const TrainingCourse& course) {
  return std::isfinite(course.last_loss) && std::isfinite(course.test_loss) &&
         std::isfinite(course.test_accuracy);
}

// True if `end` is at least these factors of the first loss and of the guess's loss.
bool IsAtLeast(double end, double factor_of_first, double factor_of_guess,
               const TrainingCourse& course) {
  return end >= factor_of_first * *course.first_loss && end >= factor_of_guess * course.guess_loss;
}

bool IsNotBelowStart(const TrainingCourse& course) {
  if (!course.first_loss.has_value()) return false;
  const double end = LossAtTheEnd(course);
  return IsAtLeast(end, 0.98, 0.98, course) || IsAtLeast(end, 1.5, 0.5, course);
}

bool IsConstantGuess(const TrainingCourse& course) {
  if (LossAtTheEnd(course) > 1.1 * course.guess_loss) return true;
  const double share = course.guess_accuracy;
  const double samples = static_cast<double>(std::max<uint64_t>(1, course.test_samples));
  const double standard_error = std::sqrt(share * (1 - share) / samples);
  return course.test_loss >= 0.98 * course.guess_loss &&
         course.test_accuracy <= share + 3 * standard_error &&
         course.last_loss >= 0.8 * course.guess_loss;
}

std::string WhatHappened(TrainingFailure failure, const TrainingCourse& course) {
  switch (failure) {
    case TrainingFailure::kNone:
      break;
    case TrainingFailure::kNotFinite:
      return "the loss at the end is not finite";
    case TrainingFailure::kNotBelowStart:
      return absl::StrFormat("the loss was %.4g in the first steps and is %.4g at the end",
                             *course.first_loss, LossAtTheEnd(course));
    case TrainingFailure::kConstantGuess:
      return absl::StrFormat(
          "the test loss is %.4g, and one answer for all samples has %.4g (test accuracy %.1f %% "
          "and %.1f %%)",
          course.test_loss, course.guess_loss, 100 * course.test_accuracy,
          100 * course.guess_accuracy);
  }
  return "";
}

// True if the loss went up at some time because steps were too large.
bool HasRisen(TrainingFailure failure, const TrainingCourse& course) {
  if (failure == TrainingFailure::kNotFinite) return true;
  return course.largest_loss >= 1.5 * course.guess_loss ||
         course.test_loss >= 1.1 * course.first_loss.value_or(course.guess_loss);
}

// Flags other than the learning rate for smaller steps.
std::string OtherAdvice(const v1::ConsistencySpec& consistency) {
  const bool is_scaled = consistency.update_scale() == v1::ConsistencySpec::STALENESS;
  const char* scale = is_scaled ? "" : ", --update_scale=staleness";
  switch (consistency.mode()) {
    case v1::ConsistencySpec::SSP:
      return absl::StrCat(scale, ", a smaller --staleness or --consistency=bsp");
    case v1::ConsistencySpec::ASYNC:
      return absl::StrCat(scale, " or --consistency=bsp");
    case v1::ConsistencySpec::BSP:
    case v1::ConsistencySpec::MODE_UNSPECIFIED:
      break;
  }
  return "";
}

// The flag with the size of the updates that move the values most.
std::string RateFlag(const v1::JobSpec& job) {
  return HasLocalSteps(job) ? "--local_learning_rate" : "--learning_rate";
}

double RateOf(const v1::JobSpec& job) {
  return HasLocalSteps(job) ? job.training().local_steps().optimizer().learning_rate()
                            : job.optimizer().learning_rate();
}

std::string SmallerStepsText(const v1::JobSpec& job) {
  if (job.model().type() == v1::ModelSpec::PROGRAM) {
    return absl::StrCat("Its updates were too large: try a smaller learning rate in the program",
                        OtherAdvice(job.consistency()), ".");
  }
  return absl::StrFormat(
      "Its updates were too large: try a smaller %s, such as %g%s; features that are "
      "very large (--feature_scale) do the same.",
      RateFlag(job), 0.1 * RateOf(job), OtherAdvice(job.consistency()));
}

std::string LargerStepsText(const v1::JobSpec& job) {
  return absl::StrFormat(
      "It has hardly moved: try more %s or a larger %s, such as %g; if neither helps, "
      "look whether the features tell the labels apart.",
      job.training().steps() > 0 ? "--steps" : "--epochs", RateFlag(job), 10 * RateOf(job));
}

}  // namespace

TrainingFailure JudgeTraining(const TrainingCourse& course) {
  if (!IsFinite(course)) return TrainingFailure::kNotFinite;
  if (course.steps < kFewestSteps || course.guess_loss <= 0) return TrainingFailure::kNone;
  if (IsNotBelowStart(course)) return TrainingFailure::kNotBelowStart;
  if (IsConstantGuess(course)) return TrainingFailure::kConstantGuess;
  return TrainingFailure::kNone;
}

std::string TrainingWarning(const v1::JobSpec& job, const TrainingCourse& course) {
  const TrainingFailure failure = JudgeTraining(course);
  if (failure == TrainingFailure::kNone) return course.data_warning;
  const std::string advice = !course.data_warning.empty() ? course.data_warning
                             : HasRisen(failure, course)  ? SmallerStepsText(job)
                                                          : LargerStepsText(job);
  return absl::StrCat("training has failed: ", WhatHappened(failure, course), ". ", advice);
}

}  // namespace capstan
