#include "server/coordinator/state/scheduled_threads.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace capstan {

void ScheduledThreads::Run(const std::vector<std::function<void()>>& bodies, Choose choose) {
  choose_ = std::move(choose);
  waiting_.clear();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < bodies.size(); ++i) {
    waiting_.push_back(i);
    threads.emplace_back([this, i, &bodies] {
      WaitFor(i);
      bodies[i]();
      waiting_.erase(std::find(waiting_.begin(), waiting_.end(), i));
      GoOn(waiting_.empty() ? kNobody : choose_(waiting_));
    });
  }
  GoOn(choose_(waiting_));
  for (std::thread& thread : threads) thread.join();
}

void ScheduledThreads::Pause(size_t thread) {
  const size_t next = choose_(waiting_);
  if (next == thread) return;
  GoOn(next);
  WaitFor(thread);
}

void ScheduledThreads::GoOn(size_t thread) {
  MutexLock lock(&mu_);
  running_ = thread;
  changed_.NotifyAll();
}

void ScheduledThreads::WaitFor(size_t thread) {
  MutexLock lock(&mu_);
  while (running_ != thread) clock_.WaitUntil(mu_, changed_, absl::InfiniteFuture());
}

size_t ForEachOrder(const std::function<void(const ScheduledThreads::Choose&)>& run) {
  struct Choice {
    size_t taken = 0;
    size_t count = 0;
  };
  std::vector<Choice> choices;
  size_t orders = 0;
  do {
    size_t next = 0;
    run([&](const std::vector<size_t>& waiting) {
      if (next == choices.size()) choices.push_back({0, waiting.size()});
      return waiting[choices[next++].taken];
    });
    ++orders;
    while (!choices.empty() && choices.back().taken + 1 == choices.back().count) choices.pop_back();
    if (!choices.empty()) ++choices.back().taken;
  } while (!choices.empty());
  return orders;
}

}  // namespace capstan
