#ifndef COMMON_SCHEDULER_JOINED_CREDIT_H_
#define COMMON_SCHEDULER_JOINED_CREDIT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace capstan {

// The `credited` of several messages that are one transfer: runs the transfer's own when it has
// been called `count` times. Copies count together. Thread-safe.
class JoinedCredit {
 public:
  JoinedCredit(int64_t count, absl::AnyInvocable<void()> credited)
      : state_(std::make_shared<State>(count, std::move(credited))) {}

  void operator()() const {
    if (state_->left.fetch_sub(1) == 1) state_->credited();
  }

 private:
  struct State {
    State(int64_t count, absl::AnyInvocable<void()> last)
        : left(count), credited(std::move(last)) {}
    std::atomic<int64_t> left;
    absl::AnyInvocable<void()> credited;
  };
  std::shared_ptr<State> state_;
};

}  // namespace capstan

#endif  // COMMON_SCHEDULER_JOINED_CREDIT_H_
