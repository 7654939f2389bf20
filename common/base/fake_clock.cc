#include "common/base/fake_clock.h"

#include <algorithm>
#include <vector>

namespace capstan {

void FakeClock::Advance(absl::Duration duration) {
  const absl::Time target = Now() + duration;
  while (true) {
    absl::AnyInvocable<void()> callback;
    {
      MutexLock lock(&mu_);
      now_ = std::max(now_, std::min(target, timers_.NextTime()));
      auto due = timers_.PopDue(now_);
      if (!due.has_value()) break;
      callback = std::move(due->second);
    }
    callback();
  }
  std::vector<Waiter> waiters;
  {
    MutexLock lock(&mu_);
    waiters.assign(waiters_.begin(), waiters_.end());
  }
  for (const auto& [mutex, condition] : waiters) {
    MutexLock lock(mutex);
    condition->NotifyAll();
  }
}

absl::Time FakeClock::Now() const {
  MutexLock lock(&mu_);
  return now_;
}

Clock::TimerId FakeClock::RunAt(absl::Time when, absl::AnyInvocable<void()> callback) {
  MutexLock lock(&mu_);
  return timers_.Add(when, std::move(callback));
}

bool FakeClock::Cancel(TimerId timer) {
  TimerQueue::Callback removed;  // destroyed without the lock
  MutexLock lock(&mu_);
  removed = timers_.Remove(timer);
  return removed != nullptr;
}

bool FakeClock::WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) {
  std::list<Waiter>::iterator waiter;
  {
    MutexLock lock(&mu_);
    if (now_ >= deadline) return false;
    waiter = waiters_.insert(waiters_.end(), {&mutex, &condition});
  }
  condition.Wait(mutex);
  MutexLock lock(&mu_);
  waiters_.erase(waiter);
  return now_ < deadline;
}

}  // namespace capstan
