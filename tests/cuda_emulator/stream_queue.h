#ifndef TESTS_CUDA_EMULATOR_STREAM_QUEUE_H_
#define TESTS_CUDA_EMULATOR_STREAM_QUEUE_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tests/cuda_emulator/block_runner.h"
#include "tests/cuda_emulator/moment.h"

namespace capstan {
namespace emulator {

// A stream: a thread that runs its operations in order. A caller of Push is ordered with none of
// them until it waits for a moment. Thread-safe.
class StreamQueue {
 public:
  using Operation = std::function<void(BlockRunner& blocks)>;

  // Outlived by `clock`.
  explicit StreamQueue(Clock& clock);
  // Runs all its operations first.
  ~StreamQueue();
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  void Push(Operation operation);

  // The moment when everything given until now has been done.
  std::shared_ptr<Moment> PushMoment();

 private:
  void Run();
  bool Pop(std::unique_ptr<Operation>& operation);

  Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  std::deque<std::unique_ptr<Operation>> operations_ ABSL_GUARDED_BY(mu_);
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace emulator
}  // namespace capstan

#endif  // TESTS_CUDA_EMULATOR_STREAM_QUEUE_H_
