#include "common/base/delayed_calls.h"

#include <utility>

namespace capstan {

void DelayedCalls::RunAfter(absl::Duration delay, Call call) {
  {
    MutexLock lock(&mu_);
    if (!is_stopped_) {
      const uint64_t id = ++last_id_;
      Waiting& waiting = waiting_[id];
      waiting.call = std::move(call);
      waiting.timer = clock_->RunAfter(delay, [this, id] { RunDue(id); });
      return;
    }
  }
  call(false);
}

void DelayedCalls::RunDue(uint64_t id) {
  Call call;
  {
    MutexLock lock(&mu_);
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) return;
    call = std::exchange(it->second.call, nullptr);
  }
  call(true);
  // Only now: Stop waits for the timers in this list.
  MutexLock lock(&mu_);
  waiting_.erase(id);
}

void DelayedCalls::Stop() {
  std::map<uint64_t, Waiting> waiting;
  {
    MutexLock lock(&mu_);
    is_stopped_ = true;
    waiting.swap(waiting_);
  }
  for (auto& [id, entry] : waiting) clock_->Cancel(entry.timer);
  for (auto& [id, entry] : waiting) {
    if (entry.call) entry.call(false);
  }
}

}  // namespace capstan
