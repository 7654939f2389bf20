#include "tests/cuda_emulator/moment.h"

#include "tests/cuda_emulator/sanitizers.h"

namespace capstan {
namespace emulator {

void Moment::Reach() {
  ReleaseOrder(this);
  QuietLock lock(&mu_);
  is_reached_ = true;
  time_ = clock_.Now();
  changed_.NotifyAll();
}

void Moment::Wait() {
  {
    QuietLock lock(&mu_);
    while (!is_reached_) clock_.WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
  AcquireOrder(this);
}

bool Moment::IsReached() {
  {
    QuietLock lock(&mu_);
    if (!is_reached_) return false;
  }
  AcquireOrder(this);
  return true;
}

absl::Time Moment::time() {
  QuietLock lock(&mu_);
  return time_;
}

}  // namespace emulator
}  // namespace capstan
