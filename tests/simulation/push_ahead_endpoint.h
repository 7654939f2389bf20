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

// Omits every other pull of a worker, and repeats the values of the previous pull instead. The
// worker thus pushes ahead of its consistency bound, and the pulls of others meet these pushes.
// Thread-safe.
class PushAheadEndpoint : public ParameterEndpoint {
 public:
  // Each worker has `steps` steps. The pull after the last step is never omitted.
  PushAheadEndpoint(int64_t steps, std::unique_ptr<ParameterEndpoint> inner)
      : steps_(steps), inner_(std::move(inner)) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  // The answer to the slice's latest pull, if the pull of this step is omitted.
  std::optional<ExchangeReply> InPlaceOf(SliceKey slice, Step pull_step);

  const int64_t steps_;
  Mutex mu_;
  std::map<SliceKey, ExchangeReply> latest_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<ParameterEndpoint> inner_;  // Its destructor answers open exchanges.
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_PUSH_AHEAD_ENDPOINT_H_
