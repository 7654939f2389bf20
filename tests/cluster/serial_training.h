#ifndef TESTS_CLUSTER_SERIAL_TRAINING_H_
#define TESTS_CLUSTER_SERIAL_TRAINING_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace capstan {

struct SerialResult {
  uint64_t parameters_xxh3 = 0;
  double test_accuracy = 0;
};

// The reference for a BSP job: one loop without servers, slices or messages. Each step sums the
// gradients of all workers, from worker 0 on, divides by their number, and applies the mean.
SerialResult TrainSerially(const v1::JobSpec& job);

}  // namespace capstan

#endif  // TESTS_CLUSTER_SERIAL_TRAINING_H_
