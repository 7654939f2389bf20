#include "common/scheduler/scheduler.h"

#include <utility>
#include <vector>

namespace capstan {

Scheduler::Scheduler(uint64_t credit_bytes, std::unique_ptr<TransferQueue> queue,
                     const Clock* clock)
    : clock_(clock),
      begin_(clock == nullptr ? absl::Time() : clock->Now()),
      credit_bytes_(credit_bytes),
      queue_(std::move(queue)) {}

void Scheduler::Submit(Transfer transfer) {
  mu_.Lock();
  if (is_closed_) return mu_.Unlock();
  CountLocked(transfer);
  queue_->Push(std::move(transfer));
  StartReadyAndUnlock();
}

bool Scheduler::TryStart(uint64_t bytes) {
  MutexLock lock(&mu_);
  if (is_closed_ || !IsFreeLocked()) return false;
  bytes_in_flight_ += bytes;
  return true;
}

bool Scheduler::IsFreeLocked() const {
  return !is_starting_ && queue_->is_empty() && bytes_in_flight_ < credit_bytes_;
}

void Scheduler::CountLocked(Transfer& transfer) {
  if (clock_ == nullptr) return;
  Waiting& waiting = waiting_[transfer.layer];
  if (IsFreeLocked()) return;  // It will not wait.
  transfer.is_counted = true;
  ++waiting.count;
  waiting.time -= clock_->Now() - begin_;
}

void Scheduler::UncountLocked(const Transfer& transfer) {
  if (!transfer.is_counted) return;
  Waiting& waiting = waiting_[transfer.layer];
  --waiting.count;
  waiting.time += clock_->Now() - begin_;
}

std::map<int, Scheduler::Waiting> Scheduler::waiting() const {
  MutexLock lock(&mu_);
  std::map<int, Waiting> result = waiting_;
  if (result.empty()) return result;
  const absl::Duration now = clock_->Now() - begin_;
  for (auto& [layer, waiting] : result) waiting.time += waiting.count * now;
  return result;
}

void Scheduler::ReturnCredit(uint64_t bytes) {
  mu_.Lock();
  bytes_in_flight_ -= bytes;
  StartReadyAndUnlock();
}

void Scheduler::SetCredit(uint64_t credit_bytes) {
  mu_.Lock();
  if (std::exchange(credit_bytes_, credit_bytes) == credit_bytes) return mu_.Unlock();
  StartReadyAndUnlock();
}

void Scheduler::Close() {
  // Destroyed after the lock is released.
  std::vector<Transfer> dropped;
  MutexLock lock(&mu_);
  is_closed_ = true;
  while (!queue_->is_empty()) {
    dropped.push_back(queue_->Pop());
    UncountLocked(dropped.back());
  }
}

void Scheduler::StartReadyAndUnlock() {
  // The thread in the loop below, perhaps this one further up its stack, starts this transfer too.
  if (is_starting_) return mu_.Unlock();
  is_starting_ = true;
  while (!queue_->is_empty() && bytes_in_flight_ < credit_bytes_) {
    Transfer transfer = queue_->Pop();
    UncountLocked(transfer);
    bytes_in_flight_ += transfer.bytes;
    mu_.Unlock();
    transfer.start([this, bytes = transfer.bytes] { ReturnCredit(bytes); });
    mu_.Lock();
  }
  is_starting_ = false;
  mu_.Unlock();
}

}  // namespace capstan
