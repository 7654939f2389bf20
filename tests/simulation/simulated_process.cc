#include "tests/simulation/simulated_process.h"

#include <utility>

namespace capstan {

void SimulatedProcess::Pause() {
  if (state_ == State::kRunning) state_ = State::kPaused;
}

void SimulatedProcess::Resume() {
  if (state_ == State::kPaused) GoOn(State::kRunning);
}

void SimulatedProcess::Kill() { state_ = State::kDead; }

void SimulatedProcess::Bury() { GoOn(State::kBuried); }

void SimulatedProcess::GoOn(State state) {
  state_ = state;
  goes_on_.NotifyAll();
  world_.RunAfter(absl::ZeroDuration(), [this] {
    for (const TimerId timer : std::exchange(due_, {})) Fire(timer);
  });
}

Clock::TimerId SimulatedProcess::RunAt(absl::Time when, absl::AnyInvocable<void()> callback) {
  const TimerId timer = ++last_timer_;
  Timer& entry = timers_[timer];
  entry.callback = std::move(callback);
  entry.world_timer = world_.RunAt(when, [this, timer] { Fire(timer); });
  return timer;
}

bool SimulatedProcess::Cancel(TimerId timer) {
  const auto cancelled = timers_.extract(timer);
  if (cancelled.empty()) return false;
  world_.Cancel(cancelled.mapped().world_timer);
  return true;
}

void SimulatedProcess::Fire(TimerId timer) {
  if (stands_still()) {
    due_.push_back(timer);
    return;
  }
  auto fired = timers_.extract(timer);
  if (!fired.empty()) fired.mapped().callback();
}

bool SimulatedProcess::WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) {
  const bool is_in_time = world_.WaitUntil(mutex, condition, deadline);
  while (stands_still()) world_.WaitUntil(mutex, goes_on_, absl::InfiniteFuture());
  return is_in_time;
}

}  // namespace capstan
