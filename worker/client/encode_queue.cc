#include "worker/client/encode_queue.h"

#include <new>
#include <utility>

#include "absl/time/time.h"

namespace capstan {

EncodeQueue::EncodeQueue(Clock* clock, std::unique_ptr<TransferQueue> order,
                         std::function<void(const absl::Status&)> on_error)
    : on_error_(std::move(on_error)), calls_(std::move(order)), later_(clock) {}

void EncodeQueue::Push(int layer, absl::AnyInvocable<void()> encode) {
  Transfer call;
  call.layer = layer;
  call.start = [encode = std::move(encode)](absl::AnyInvocable<void()>) mutable { encode(); };
  {
    MutexLock lock(&mu_);
    calls_->Push(std::move(call));
    if (std::exchange(is_running_, true)) return;
  }
  RunNext();
}

void EncodeQueue::RunNext() {
  later_.RunAfter(absl::ZeroDuration(), [this](bool is_due) {
    if (!is_due) return;
    // Nobody else on this thread would catch it.
    try {
      Transfer call;
      {
        MutexLock lock(&mu_);
        call = calls_->Pop();
      }
      call.start(nullptr);
      {
        MutexLock lock(&mu_);
        is_running_ = !calls_->is_empty();
        if (!is_running_) return;
      }
      RunNext();
    } catch (const std::bad_alloc&) {
      on_error_(out_of_memory_);
    }
  });
}

}  // namespace capstan
