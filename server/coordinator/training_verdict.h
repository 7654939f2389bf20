#ifndef SERVER_COORDINATOR_TRAINING_VERDICT_H_
#define SERVER_COORDINATOR_TRAINING_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/job.pb.h"

namespace capstan {

// A job's training, as known at its end. Losses are means over samples.
struct TrainingCourse {
  int64_t steps = 0;                 // of each worker
  std::optional<double> first_loss;  // of the first 10 steps; none if nobody has done them
  double largest_loss = 0;           // of any 50 steps of a worker, and of any worker
  double last_loss = 0;              // of the last 50 steps
  double test_loss = 0;
  double test_accuracy = 0;
  uint64_t test_samples = 0;
  // Loss and accuracy of the best constant answer (ConstantGuess). A loss of 0: not known.
  double guess_loss = 0;
  double guess_accuracy = 0;
  // What is probably wrong in the data, and what to do; empty: nothing.
  std::string data_warning;
};

enum class TrainingFailure { kNone, kNotFinite, kNotBelowStart, kConstantGuess };

// Judges if the training has failed. The loss at the end is the smaller of last_loss and test_loss:
// an unlucky last batch raises only the one, and learning the data by heart raises only the other.
// The first rule that applies decides:
//
//   kNotFinite      last_loss, test_loss or test_accuracy is not finite.
//   kNone           fewer than 50 steps, or guess_loss is not known: too little to tell by.
//   kNotBelowStart  the end is at least 0.98 first_loss and 0.98 guess_loss; or, if training
//                   began well, at least 1.5 first_loss and 0.5 guess_loss.
//   kConstantGuess  the end is above 1.1 guess_loss; or test_loss is at least 0.98 guess_loss,
//                   test_accuracy at most 3 standard errors above guess_accuracy, and the data have
//                   not been learnt by heart: last_loss is at least 0.8 guess_loss.
TrainingFailure JudgeTraining(const TrainingCourse& course);

// One line with the failure and advice, or with the data's warning alone; empty if there is none.
// The data's warning takes the place of advice: other steps do not mend data.
std::string TrainingWarning(const v1::JobSpec& job, const TrainingCourse& course);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_TRAINING_VERDICT_H_
