#ifndef KERNELS_CUDA_EMULATOR_MOMENT_H_
#define KERNELS_CUDA_EMULATOR_MOMENT_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {
namespace emulator {

// A place in a stream's queue that is reached once, and which others can wait for: what came before
// it happened before what they do then. Thread-safe.
class Moment {
 public:
  // Outlived by `clock`.
  explicit Moment(Clock& clock) : clock_(clock) {}

  void Reach();
  void Wait();
  bool IsReached();
  // When it was reached; it was.
  absl::Time time();

 private:
  Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  bool is_reached_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time time_ ABSL_GUARDED_BY(mu_);
};

}  // namespace emulator
}  // namespace capstan

#endif  // KERNELS_CUDA_EMULATOR_MOMENT_H_
