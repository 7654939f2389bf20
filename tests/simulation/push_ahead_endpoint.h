#ifndef TESTS_SIMULATION_PUSH_AHEAD_ENDPOINT_H_
#define TESTS_SIMULATION_PUSH_AHEAD_ENDPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"

namespace capstan {

// Leaves out every other pull of a worker, which gets the values of the pull before again: so it
// pushes ahead of what the consistency would let it wait for, and the pulls of others meet that.
// Thread-safe.
class PushAheadEndpoint : public ParameterEndpoint {
 public:
  // `steps` of each worker: the values after the last one are always pulled.
  PushAheadEndpoint(int64_t steps, std::unique_ptr<ParameterEndpoint> inner)
      : steps_(steps), inner_(std::move(inner)) {}

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  // The answer to the slice's latest pull, if the pull of this step is left out.
  std::optional<ExchangeReply> InPlaceOf(SliceKey slice, Step pull_step);

  const int64_t steps_;
  Mutex mu_;
  std::map<SliceKey, ExchangeReply> latest_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<ParameterEndpoint> inner_;  // Its end answers what is open.
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_PUSH_AHEAD_ENDPOINT_H_
