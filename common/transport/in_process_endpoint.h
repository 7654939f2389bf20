#ifndef COMMON_TRANSPORT_IN_PROCESS_ENDPOINT_H_
#define COMMON_TRANSPORT_IN_PROCESS_ENDPOINT_H_

#include <utility>

#include "common/transport/parameter_endpoint.h"

namespace capstan {

// A connection to an endpoint of this process: no copy, no thread. `target`, typically a shard host,
// is borrowed and outlives it. Thread-safe.
class InProcessEndpoint : public ParameterEndpoint {
 public:
  explicit InProcessEndpoint(ParameterEndpoint* target) : target_(target) {}

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    target_->Exchange(std::move(request), std::move(sent), std::move(done));
  }

 private:
  ParameterEndpoint* const target_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_IN_PROCESS_ENDPOINT_H_
