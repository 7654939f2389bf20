#include "server/coordinator/alarm.h"

namespace capstan {

Alarm::~Alarm() {
  std::map<absl::Time, Clock::TimerId> timers;
  Clock::TimerId last_rung;
  {
    MutexLock lock(&mu_);
    is_stopped_ = true;
    timers = timers_;
    last_rung = last_rung_;
  }
  for (const auto& [when, timer] : timers) clock_.Cancel(timer);
  if (last_rung != 0) clock_.Cancel(last_rung);  // Waits for it when it is still ringing.
}

void Alarm::RingBy(absl::Time when) {
  MutexLock lock(&mu_);
  if (is_stopped_ || when == absl::InfiniteFuture()) return;
  if (!timers_.empty() && timers_.begin()->first <= when) return;
  timers_[when] = clock_.RunAt(when, [this, when] { Ring(when); });
}

void Alarm::Ring(absl::Time when) {
  {
    MutexLock lock(&mu_);
    if (is_stopped_) return;
    last_rung_ = timers_.at(when);
    timers_.erase(when);
  }
  ring_();
}

}  // namespace capstan
