#ifndef COMMON_BASE_END_REQUEST_H_
#define COMMON_BASE_END_REQUEST_H_

#include <atomic>

namespace capstan {

// In the reason of a job's failure: a member got an EndRequest.
inline constexpr char kAskedToEnd[] = "was asked to end";

// Asks a process to end, once it has a part in a job and must leave it in order. Thread-safe.
class EndRequest {
 public:
  // From now on the process looks at is_asked, and ends by itself.
  void Await() {
    State expected = State::kNotAwaited;
    state_.compare_exchange_strong(expected, State::kAwaited);
  }
  // False if nobody awaits it, or it has been asked before: the process is to end at once.
  bool Ask() {
    State expected = State::kAwaited;
    return state_.compare_exchange_strong(expected, State::kAsked);
  }
  bool is_asked() const { return state_ == State::kAsked; }

 private:
  enum class State { kNotAwaited, kAwaited, kAsked };
  std::atomic<State> state_ = State::kNotAwaited;
};

}  // namespace capstan

#endif  // COMMON_BASE_END_REQUEST_H_
