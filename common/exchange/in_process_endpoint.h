#ifndef COMMON_EXCHANGE_IN_PROCESS_ENDPOINT_H_
#define COMMON_EXCHANGE_IN_PROCESS_ENDPOINT_H_

#include <memory>

#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// A connection to an endpoint of the same process. Has no thread and copies nothing. Its destructor
// answers open exchanges with UNAVAILABLE, as a broken connection does. Thread-safe.
class InProcessEndpoint : public ParameterEndpoint {
 public:
  // `target`, typically a shard host, is borrowed and outlives the connection.
  explicit InProcessEndpoint(ParameterEndpoint* target);
  ~InProcessEndpoint() override;

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  class OpenExchanges;

  ParameterEndpoint* const target_;
  const std::shared_ptr<OpenExchanges> open_;
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_IN_PROCESS_ENDPOINT_H_
