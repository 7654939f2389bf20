#ifndef COMMON_EXCHANGE_IN_PROCESS_ENDPOINT_H_
#define COMMON_EXCHANGE_IN_PROCESS_ENDPOINT_H_

#include <memory>

#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// A connection to an endpoint of this process: no copy, no thread. Thread-safe; when destroyed,
// what is open is UNAVAILABLE, as when a connection breaks.
class InProcessEndpoint : public ParameterEndpoint {
 public:
  // `target`, typically a shard host, is borrowed and outlives the connection.
  explicit InProcessEndpoint(ParameterEndpoint* target);
  ~InProcessEndpoint() override;

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  class OpenExchanges;

  ParameterEndpoint* const target_;
  const std::shared_ptr<OpenExchanges> open_;
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_IN_PROCESS_ENDPOINT_H_
