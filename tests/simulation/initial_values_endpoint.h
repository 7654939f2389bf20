#ifndef TESTS_SIMULATION_INITIAL_VALUES_ENDPOINT_H_
#define TESTS_SIMULATION_INITIAL_VALUES_ENDPOINT_H_

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/user_program.h"

namespace capstan {

// Sends a slice's initial values beside the worker's first pull of it, if it is worker 0. The pull
// goes first, so servers must let it wait. The program may make worker 0 late, send twice or die,
// and may make worker 1 send other values, which servers must refuse. Thread-safe.
class InitialValuesEndpoint : public ParameterEndpoint {
 public:
  // `clock` outlives the endpoint. A slice has `slice_size` elements. `lose_worker_0` is called
  // when the program says so, if this is worker 0.
  InitialValuesEndpoint(const UserProgram& program, size_t slice_size, Clock* clock,
                        std::function<void()> lose_worker_0,
                        std::unique_ptr<ParameterEndpoint> inner)
      : program_(program),
        slice_size_(slice_size),
        lose_worker_0_(std::move(lose_worker_0)),
        inner_(std::move(inner)),
        later_(clock) {}
  ~InitialValuesEndpoint() override { later_.Stop(); }

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  // `pull` is of the slice and its worker.
  ExchangeRequest InitialOf(const ExchangeRequest& pull) const;
  void SendAfter(absl::Duration delay, ExchangeRequest request);
  void SendInitial(const ExchangeRequest& pull);

  const UserProgram program_;
  const size_t slice_size_;
  const std::function<void()> lose_worker_0_;
  Mutex mu_;
  std::set<SliceKey> begun_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<ParameterEndpoint> inner_;  // Its destructor answers open exchanges.
  DelayedCalls later_;                              // uses inner_
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_INITIAL_VALUES_ENDPOINT_H_
