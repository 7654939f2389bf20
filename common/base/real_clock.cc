#include "common/base/real_clock.h"

#include <utility>

namespace capstan {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int kReadings = 10;

}  // namespace

ClockReading ReadBothClocks(absl::FunctionRef<absl::Time()> wall,
                            absl::FunctionRef<SteadyTime()> steady) {
  ClockReading best;
  auto shortest = SteadyTime::duration::max();
  for (int i = 0; i < kReadings; ++i) {
    const SteadyTime before = steady();
    const absl::Time between = wall();
    const auto took = steady() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {between, before + took / 2};
  }
  return best;
}

RealClock::RealClock()
    : start_(ReadBothClocks([] { return absl::FromChrono(std::chrono::system_clock::now()); },
                            [] { return std::chrono::steady_clock::now(); })),
      thread_([this] { RunTimers(); }) {}

RealClock::~RealClock() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

absl::Time RealClock::Now() const {
  return start_.wall + absl::FromChrono(std::chrono::steady_clock::now() - start_.steady);
}

Clock::TimerId RealClock::RunAt(absl::Time when, absl::AnyInvocable<void()> callback) {
  MutexLock lock(&mu_);
  const TimerId timer = timers_.Add(when, std::move(callback));
  changed_.NotifyAll();
  return timer;
}

bool RealClock::Cancel(TimerId timer) {
  TimerQueue::Callback removed;  // destroyed without the lock
  MutexLock lock(&mu_);
  removed = timers_.Remove(timer);
  if (removed != nullptr) return true;
  while (timer != 0 && running_ == timer && std::this_thread::get_id() != thread_.get_id())
    changed_.Wait(mu_);
  return false;
}

bool RealClock::WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) {
    condition.Wait(mutex);
    return true;
  }
  return condition.WaitUntil(mutex,
                             start_.steady + absl::ToChronoNanoseconds(deadline - start_.wall));
}

void RealClock::RunTimers() {
  mu_.Lock();
  while (!stopping_) {
    auto due = timers_.PopDue(Now());
    if (!due.has_value()) {
      WaitUntil(mu_, changed_, timers_.NextTime());
      continue;
    }
    running_ = due->first;
    mu_.Unlock();
    due->second();
    due->second = nullptr;  // destroyed before Cancel returns
    mu_.Lock();
    running_ = 0;
    changed_.NotifyAll();
  }
  mu_.Unlock();
}

}  // namespace capstan
