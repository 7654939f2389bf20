#include "common/base/simulated_clock.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace capstan {

SimulatedClock::SimulatedClock() {
  MutexLock lock(&mu_);
  driver_.has_baton = true;
}

SimulatedClock::~SimulatedClock() {
  CHECK_EQ(live_threads(), 0) << "a thread of the simulation still waits";
  std::list<std::unique_ptr<Runner>> threads;
  {
    MutexLock lock(&mu_);
    threads.swap(threads_);
  }
  for (const auto& runner : threads) runner->thread.join();
}

void SimulatedClock::Spawn(absl::AnyInvocable<void()> body) {
  MutexLock lock(&mu_);
  ++live_threads_;
  Runner* const runner = threads_.emplace_back(std::make_unique<Runner>()).get();
  runner->thread = std::thread(
      [this, runner, body = std::move(body)]() mutable { RunThread(runner, std::move(body)); });
  MakeReadyLocked(runner);
}

void SimulatedClock::RunThread(Runner* self, absl::AnyInvocable<void()> body) {
  {
    MutexLock lock(&mu_);
    AwaitBatonLocked(self);
  }
  body();
  body = nullptr;
  MutexLock lock(&mu_);
  --live_threads_;
  GiveBatonLocked(NextRunnerLocked());
}

void SimulatedClock::RunUntil(absl::Time deadline) {
  MutexLock lock(&mu_);
  CHECK(current_ == &driver_ && !is_in_timer_) << "a thread of the simulation drives it";
  deadline_ = deadline;
  PassBatonLocked(&driver_);
  if (deadline != absl::InfiniteFuture()) now_ = std::max(now_, deadline);
}

int SimulatedClock::live_threads() const {
  MutexLock lock(&mu_);
  return live_threads_;
}

absl::Time SimulatedClock::Now() const {
  MutexLock lock(&mu_);
  return now_;
}

Clock::TimerId SimulatedClock::RunAt(absl::Time when, absl::AnyInvocable<void()> callback) {
  MutexLock lock(&mu_);
  return timers_.Add(std::max(when, now_), std::move(callback));
}

bool SimulatedClock::Cancel(TimerId timer) {
  TimerQueue::Callback removed;  // destroyed without the lock
  MutexLock lock(&mu_);
  removed = timers_.Remove(timer);
  return removed != nullptr;
}

bool SimulatedClock::WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) {
  TimerId timer = 0;
  {
    MutexLock lock(&mu_);
    CHECK(!is_in_timer_) << "a timer must not wait";
    if (now_ >= deadline) return false;
    Runner* const self = current_;
    condition.set_observer(this);
    waiting_[&condition].push_back(self);
    if (deadline != absl::InfiniteFuture()) {
      timer = timers_.Add(deadline, [this, self] {
        MutexLock timer_lock(&mu_);
        MakeReadyLocked(self);
      });
    }
    mutex.Unlock();
    PassBatonLocked(self);
    const auto waiters = waiting_.find(&condition);
    waiters->second.remove(self);
    if (waiters->second.empty()) {
      waiting_.erase(waiters);
      condition.set_observer(nullptr);
    }
    if (timer != 0) timers_.Remove(timer);
  }
  mutex.Lock();
  return Now() < deadline;
}

void SimulatedClock::OnNotifyAll(CondVar& condition) {
  MutexLock lock(&mu_);
  const auto waiters = waiting_.find(&condition);
  if (waiters == waiting_.end()) return;
  for (Runner* const runner : waiters->second) MakeReadyLocked(runner);
}

void SimulatedClock::MakeReadyLocked(Runner* runner) {
  if (!std::exchange(runner->is_ready, true)) ready_.push_back(runner);
}

SimulatedClock::Runner* SimulatedClock::NextRunnerLocked() {
  while (ready_.empty()) {
    const absl::Time next = timers_.NextTime();
    if (next == absl::InfiniteFuture() || next > deadline_) {
      MakeReadyLocked(&driver_);
      break;
    }
    now_ = std::max(now_, next);
    TimerQueue::Callback callback = std::move(timers_.PopDue(now_)->second);
    is_in_timer_ = true;
    mu_.Unlock();
    callback();
    callback = nullptr;
    mu_.Lock();
    is_in_timer_ = false;
  }
  Runner* const next = ready_.front();
  ready_.pop_front();
  next->is_ready = false;
  return next;
}

void SimulatedClock::PassBatonLocked(Runner* self) {
  Runner* const next = NextRunnerLocked();
  if (next == self) return;
  self->has_baton = false;
  GiveBatonLocked(next);
  AwaitBatonLocked(self);
}

void SimulatedClock::GiveBatonLocked(Runner* next) {
  current_ = next;
  next->has_baton = true;
  next->may_go.NotifyAll();
}

void SimulatedClock::AwaitBatonLocked(Runner* self) {
  while (!self->has_baton) self->may_go.Wait(mu_);
}

}  // namespace capstan
