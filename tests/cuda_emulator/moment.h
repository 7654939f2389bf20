#ifndef TESTS_CUDA_EMULATOR_MOMENT_H_
#define TESTS_CUDA_EMULATOR_MOMENT_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {
namespace emulator {

// A place in a stream's queue. The stream reaches it once, and others can wait for that. All work
// before the place happened before their later work. Thread-safe.
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

#endif  // TESTS_CUDA_EMULATOR_MOMENT_H_
