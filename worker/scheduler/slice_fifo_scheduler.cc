#include "worker/scheduler/slice_fifo_scheduler.h"

#include <utility>

namespace capstan {

void SliceFifoScheduler::Submit(Transfer transfer) {
  {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(transfer));
  }
  StartReady();
}

void SliceFifoScheduler::StartReady() {
  mu_.Lock();
  // Whoever is starting transfers, here or further up this stack, also starts what is ready now.
  if (std::exchange(is_starting_, true)) return mu_.Unlock();
  while (!queue_.empty() && bytes_in_flight_ < credit_bytes_) {
    Transfer transfer = std::move(queue_.front());
    queue_.pop_front();
    bytes_in_flight_ += transfer.bytes;
    mu_.Unlock();
    transfer.start([this, bytes = transfer.bytes] {
      {
        MutexLock lock(&mu_);
        bytes_in_flight_ -= bytes;
      }
      StartReady();
    });
    mu_.Lock();
  }
  is_starting_ = false;
  mu_.Unlock();
}

}  // namespace capstan
