#include "common/scheduler/scheduler.h"

#include <utility>
#include <vector>

namespace capstan {

Scheduler::Scheduler(uint64_t credit_bytes, std::unique_ptr<TransferQueue> queue)
    : credit_bytes_(credit_bytes), queue_(std::move(queue)) {}

void Scheduler::Submit(Transfer transfer) {
  {
    MutexLock lock(&mu_);
    if (is_closed_) return;
    queue_->Push(std::move(transfer));
  }
  StartReady();
}

void Scheduler::SetCredit(uint64_t credit_bytes) {
  {
    MutexLock lock(&mu_);
    credit_bytes_ = credit_bytes;
  }
  StartReady();
}

void Scheduler::Close() {
  // What they keep alive ends outside of the lock.
  std::vector<Transfer> dropped;
  MutexLock lock(&mu_);
  is_closed_ = true;
  while (!queue_->is_empty()) dropped.push_back(queue_->Pop());
}

void Scheduler::StartReady() {
  mu_.Lock();
  // Whoever is starting transfers, here or further up this stack, also starts what is ready now.
  if (std::exchange(is_starting_, true)) return mu_.Unlock();
  while (!queue_->is_empty() && bytes_in_flight_ < credit_bytes_) {
    Transfer transfer = queue_->Pop();
    bytes_in_flight_ += transfer.bytes;
    mu_.Unlock();
    transfer.start([this, bytes = transfer.bytes] { OnSent(bytes); });
    mu_.Lock();
  }
  is_starting_ = false;
  mu_.Unlock();
}

void Scheduler::OnSent(uint64_t bytes) {
  {
    MutexLock lock(&mu_);
    bytes_in_flight_ -= bytes;
  }
  StartReady();
}

}  // namespace capstan
