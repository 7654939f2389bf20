#include "server/shard/owner_threads.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace capstan {
namespace {

// About the size of the gradient as float32, for the work on it goes with that. topk counts as if
// one of 100 values had been sent: an owner is then woken for a small slice at worst.
size_t FloatBytes(const Gradient& gradient) {
  const size_t bytes = gradient.bytes.size_bytes();
  switch (gradient.codec) {
    case CodecType::kFloat32:
      return bytes;
    case CodecType::kBfloat16:
      return 2 * bytes;
    case CodecType::kInt8:
      return 4 * bytes;
    case CodecType::kTopkFloat32:
    case CodecType::kTopkBfloat16:
    case CodecType::kTopkInt8:
      return 50 * bytes;
    case CodecType::kChanged:  // no gradient has it
      break;
  }
  return bytes;
}

}  // namespace

OwnerThreads::OwnerThreads(ParameterEndpoint* host, Clock* clock, int count, size_t hand_over_bytes)
    : host_(*host), clock_(*clock), hand_over_bytes_(hand_over_bytes) {
  for (int i = 0; i < count; ++i) {
    Owner& owner = *owners_.emplace_back(std::make_unique<Owner>());
    owner.thread = std::thread([this, &owner] { Run(owner); });
  }
}

OwnerThreads::~OwnerThreads() {
  for (const std::unique_ptr<Owner>& owner : owners_) {
    MutexLock lock(&owner->mu);
    owner->is_stopping = true;
    owner->changed.NotifyAll();
  }
  for (const std::unique_ptr<Owner>& owner : owners_) owner->thread.join();
  for (const std::unique_ptr<Owner>& owner : owners_) {
    std::deque<Queued> rest;
    {
      MutexLock lock(&owner->mu);
      rest.swap(owner->queue);
    }
    for (Queued& exchange : rest) {
      exchange.delivered();
      exchange.done(ErrorReply(absl::UnavailableError("the server is shutting down")));
    }
  }
}

int OwnerThreads::DefaultCount() {
  constexpr int kBusyWithOthers = 2;
  // A few cores already use all of a machine's memory bandwidth.
  constexpr int kMost = 8;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) - kBusyWithOthers, 0,
                    kMost);
}

void OwnerThreads::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                            ReplyCallback done) {
  const Gradient* const gradient = GradientOf(request);
  const size_t bytes = gradient == nullptr ? 0 : FloatBytes(*gradient);
  const bool is_small = PushOf(request) != nullptr && bytes < hand_over_bytes_;
  if (owners_.empty() || is_small) {
    return host_.Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  const size_t number = size_t{request.slice.table.value()} + request.slice.slice.value();
  Owner& owner = *owners_[number % owners_.size()];
  MutexLock lock(&owner.mu);
  owner.queue.push_back({std::move(request), std::move(delivered), std::move(done)});
  if (owner.waits) owner.changed.NotifyAll();
}

void OwnerThreads::Run(Owner& owner) {
  while (true) {
    Queued exchange;
    {
      MutexLock lock(&owner.mu);
      while (owner.queue.empty() && !owner.is_stopping) {
        owner.waits = true;
        clock_.WaitUntil(owner.mu, owner.changed, absl::InfiniteFuture());
        owner.waits = false;
      }
      if (owner.is_stopping) return;
      exchange = std::move(owner.queue.front());
      owner.queue.pop_front();
    }
    host_.Exchange(std::move(exchange.request), std::move(exchange.delivered),
                   std::move(exchange.done));
  }
}

}  // namespace capstan
