#include "worker/engine/gradient_sender.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace capstan {

GradientSender::GradientSender(Clock* clock, absl::AnyInvocable<void(int layer)> on_push)
    : clock_(clock), on_push_(std::move(on_push)), thread_([this] { Run(); }) {}

GradientSender::~GradientSender() {
  Cancel();
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void GradientSender::Send(const CudaEvent& copied, int layer, Step step, ParameterStore& store) {
  MutexLock lock(&mu_);
  queue_.push_back({&copied, layer, step, &store});
  changed_.NotifyAll();
}

void GradientSender::Cancel() {
  MutexLock lock(&mu_);
  queue_.clear();
  while (is_sending_) clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
}

void GradientSender::Run() {
  mu_.Lock();
  while (!is_stopping_) {
    if (queue_.empty()) {
      clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
      continue;
    }
    const Push push = queue_.front();
    queue_.pop_front();
    is_sending_ = true;
    mu_.Unlock();
    const absl::Status copied = push.copied->Wait();
    if (copied.ok()) {
      on_push_(push.layer);
      push.store->PushOpened(push.layer, push.step);
    } else {
      push.store->Fail(copied);
    }
    mu_.Lock();
    is_sending_ = false;
    changed_.NotifyAll();
  }
  mu_.Unlock();
}

}  // namespace capstan
