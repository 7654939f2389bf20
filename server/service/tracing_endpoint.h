#ifndef SERVER_SERVICE_TRACING_ENDPOINT_H_
#define SERVER_SERVICE_TRACING_ENDPOINT_H_

#include <string>
#include <utility>
#include <vector>

#include "common/exchange/parameter_endpoint.h"
#include "common/trace/tracer.h"

namespace capstan {

// Traces each exchange of an endpoint of this process. From its arrival on, a push is in "apply"
// and a pull alone is in "read". Then it is "parked" until the consistency policy allows the reply,
// and in "replicate" until the copy of its shard does. The trace goes on in the reply. Thread-safe.
class TracingEndpoint : public ParameterEndpoint {
 public:
  struct Table {
    std::string name;
    int layer = 0;
  };

  // `tables` has the job's tables, in order of table id. `tracer` and `inner` outlive the endpoint
  // and its exchanges.
  TracingEndpoint(Tracer* tracer, std::vector<Table> tables, ParameterEndpoint* inner)
      : tracer_(tracer), tables_(std::move(tables)), inner_(inner) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  Tracer* const tracer_;
  const std::vector<Table> tables_;
  ParameterEndpoint* const inner_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_TRACING_ENDPOINT_H_
