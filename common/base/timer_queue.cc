#include "common/base/timer_queue.h"

namespace capstan {

Clock::TimerId TimerQueue::Add(absl::Time when, Callback callback) {
  const Clock::TimerId timer = ++last_id_;
  timers_.emplace(Key(when, timer), std::move(callback));
  times_.emplace(timer, when);
  return timer;
}

TimerQueue::Callback TimerQueue::Remove(Clock::TimerId timer) {
  const auto time = times_.find(timer);
  if (time == times_.end()) return nullptr;
  const auto it = timers_.find(Key(time->second, timer));
  Callback callback = std::move(it->second);
  timers_.erase(it);
  times_.erase(time);
  return callback;
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
