#include "tests/cuda_emulator/stream_queue.h"

#include <utility>

#include "absl/time/time.h"
#include "tests/cuda_emulator/sanitizers.h"

namespace capstan {
namespace emulator {

StreamQueue::StreamQueue(Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

StreamQueue::~StreamQueue() {
  {
    QuietLock lock(&mu_);
    is_ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void StreamQueue::Push(Operation operation) {
  auto queued = std::make_unique<Operation>(std::move(operation));
  ReleaseOrder(queued.get());
  QuietLock lock(&mu_);
  operations_.push_back(std::move(queued));
  changed_.NotifyAll();
}

std::shared_ptr<Moment> StreamQueue::PushMoment() {
  auto moment = std::make_shared<Moment>(clock_);
  Push([moment](BlockRunner&) { moment->Reach(); });
  return moment;
}

bool StreamQueue::Pop(std::unique_ptr<Operation>& operation) {
  QuietLock lock(&mu_);
  operation = nullptr;
  while (operations_.empty() && !is_ending_)
    clock_.WaitUntil(mu_, changed_, absl::InfiniteFuture());
  if (operations_.empty()) return false;
  operation = std::move(operations_.front());
  operations_.pop_front();
  return true;
}

void StreamQueue::Run() {
  BlockRunner blocks;
  std::unique_ptr<Operation> operation;
  while (Pop(operation)) {
    AcquireOrder(operation.get());
    (*operation)(blocks);
  }
}

}  // namespace emulator
}  // namespace capstan
