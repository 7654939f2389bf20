#ifndef WORKER_ENGINE_GRADIENT_SENDER_H_
#define WORKER_ENGINE_GRADIENT_SENDER_H_

#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "kernels/cuda/cuda_event.h"
#include "worker/client/parameter_store.h"

namespace capstan {

// A thread for pushing gradients as they arrive in host memory, in the order of Send. Called by one
// thread at a time.
class GradientSender {
 public:
  // `clock` outlives the sender. `on_push` is called just before each push.
  GradientSender(Clock* clock, absl::AnyInvocable<void(int layer)> on_push);
  // As Cancel.
  ~GradientSender();

  // Waits for the last recording of `copied`, then pushes `layer`, already open in `store`. Fails
  // the store if the GPU fails first. `copied` and `store` live until the reply, or until Cancel.
  void Send(const CudaEvent& copied, int layer, Step step, ParameterStore& store);

  // Drops waiting pushes. Afterwards the sender uses no store.
  void Cancel();

 private:
  struct Push {
    const CudaEvent* copied;
    int layer;
    Step step;
    ParameterStore* store;
  };

  void Run();

  Clock* const clock_;
  absl::AnyInvocable<void(int layer)> on_push_;

  Mutex mu_;
  CondVar changed_;
  std::deque<Push> queue_ ABSL_GUARDED_BY(mu_);
  bool is_sending_ ABSL_GUARDED_BY(mu_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last, as it uses the above
};

}  // namespace capstan

#endif  // WORKER_ENGINE_GRADIENT_SENDER_H_
