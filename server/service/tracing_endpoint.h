#ifndef SERVER_SERVICE_TRACING_ENDPOINT_H_
#define SERVER_SERVICE_TRACING_ENDPOINT_H_

#include <string>
#include <utility>
#include <vector>

#include "common/exchange/parameter_endpoint.h"
#include "common/trace/tracer.h"

namespace capstan {

// Traces each exchange that an endpoint of this process answers: "apply" of a push or "read" of a
// pull alone, from its arrival on, and "parked" until the consistency policy has let the reply out,
// with which the trace goes on. Thread-safe.
class TracingEndpoint : public ParameterEndpoint {
 public:
  struct Table {
    std::string name;
    int layer = 0;
  };

  // `tables` are those of the job, in order of table id. `tracer` and `inner` are borrowed; they
  // outlive the endpoint and its exchanges.
  TracingEndpoint(Tracer* tracer, std::vector<Table> tables, ParameterEndpoint* inner)
      : tracer_(tracer), tables_(std::move(tables)), inner_(inner) {}

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  Tracer* const tracer_;
  const std::vector<Table> tables_;
  ParameterEndpoint* const inner_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_TRACING_ENDPOINT_H_
