#ifndef COMMON_SCHEDULER_JOINED_SENT_H_
#define COMMON_SCHEDULER_JOINED_SENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace capstan {

// The `sent` of several messages that are one transfer: runs the transfer's own when it has been
// called `count` times. Copies count together. Thread-safe.
class JoinedSent {
 public:
  JoinedSent(int64_t count, absl::AnyInvocable<void()> sent)
      : state_(std::make_shared<State>(count, std::move(sent))) {}

  void operator()() const {
    if (state_->left.fetch_sub(1) == 1) state_->sent();
  }

 private:
  struct State {
    State(int64_t count, absl::AnyInvocable<void()> last) : left(count), sent(std::move(last)) {}
    std::atomic<int64_t> left;
    absl::AnyInvocable<void()> sent;
  };
  std::shared_ptr<State> state_;
};

}  // namespace capstan

#endif  // COMMON_SCHEDULER_JOINED_SENT_H_
