#include "common/base/timer_queue.h"

namespace capstan {

Clock::TimerId TimerQueue::Add(absl::Time when, Callback callback) {
  const Clock::TimerId timer = ++last_id_;
  timers_.emplace(Key(when, timer), std::move(callback));
  times_.emplace(timer, when);
  return timer;
}

bool TimerQueue::Remove(Clock::TimerId timer) {
  const auto it = times_.find(timer);
  if (it == times_.end()) return false;
  timers_.erase(Key(it->second, timer));
  times_.erase(it);
  return true;
}

absl::Time TimerQueue::NextTime() const {
  return timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
}

std::optional<std::pair<Clock::TimerId, TimerQueue::Callback>> TimerQueue::PopDue(absl::Time now) {
  if (NextTime() > now) return std::nullopt;
  if (timers_.empty()) return std::nullopt;
  const auto it = timers_.begin();
  auto due = std::make_pair(it->first.second, std::move(it->second));
  times_.erase(due.first);
  timers_.erase(it);
  return due;
}

}  // namespace capstan
