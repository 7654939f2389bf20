#ifndef TESTS_CLUSTER_LOCAL_STEPS_REFERENCE_H_
#define TESTS_CLUSTER_LOCAL_STEPS_REFERENCE_H_

#include <vector>

#include "proto/job.pb.h"

namespace capstan {

// The values of each table after a BSP job with local steps of an MLP, in plain loops and float64,
// without the program's classes for models, optimizers and rounds: all workers in lockstep. The
// local optimizer is SGD or AdamW, and the servers' one is Nesterov. Each layer is a fragment, or
// there is one fragment.
std::vector<std::vector<double>> TrainWithLocalSteps(const v1::JobSpec& job);

}  // namespace capstan

#endif  // TESTS_CLUSTER_LOCAL_STEPS_REFERENCE_H_
