#include "server/service/tracing_endpoint.h"

#include <cstdint>
#include <optional>

#include "common/base/ids.h"
#include "common/trace/exchange_trace.h"
#include "common/trace/trace_event.h"

namespace capstan {
namespace {

// As in the traces of workers: -1 for none.
int64_t Number(std::optional<Step> step) { return step.value_or(Step(-1)).value(); }

}  // namespace

void TracingEndpoint::Exchange(ExchangeRequest request, DeliveredCallback delivered,
                               ReplyCallback done) {
  const uint32_t table = request.slice.table.value();
  // `inner_` refuses it.
  if (table >= tables_.size()) {
    return inner_->Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  const TraceArgs args = {{"worker", request.worker.value()},
                          {"layer", tables_[table].layer},
                          {"slice", request.slice.slice.value()},
                          {"push_step", Number(request.push_step)},
                          {"pull_step", Number(request.pull_step)},
                          {"bytes_pushed", static_cast<int64_t>(request.gradient.size_bytes())}};
  const char* const phase = request.push_step.has_value() ? "apply" : "read";
  const ExchangeTrace trace(tracer_, tables_[table].name, args, phase);
  inner_->Exchange(std::move(request), std::move(delivered),
                   [trace, done = std::move(done)](ExchangeReply reply) mutable {
                     reply.trace = trace;
                     done(std::move(reply));
                   });
  trace.BeginAfter(phase, "parked");
}

}  // namespace capstan
