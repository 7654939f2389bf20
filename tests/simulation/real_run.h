#ifndef TESTS_SIMULATION_REAL_RUN_H_
#define TESTS_SIMULATION_REAL_RUN_H_

#include "absl/time/time.h"
#include "tests/simulation/prediction.h"

namespace capstan {

// Runs the workload in real time, on threads of this process and over gRPC on the loopback
// interface; its workers wait as long as they would compute. The time of the training, by step of
// each worker.
absl::Duration MeasureStepTime(const Workload& workload);

}  // namespace capstan

#endif  // TESTS_SIMULATION_REAL_RUN_H_
