#include "server/service/tracing_endpoint.h"

#include <cstdint>

#include "common/base/ids.h"
#include "common/trace/exchange_trace.h"
#include "common/trace/trace_event.h"

namespace capstan {
namespace {

// As in the traces of workers: -1 for none.
template <typename Half>
int64_t StepOf(const Half* half) {
  return half == nullptr ? -1 : half->step.value();
}

}  // namespace

void TracingEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                               ReplyCallback done) {
  const uint32_t table = request.slice.table.value();
  // `inner_` refuses it.
  if (table >= tables_.size()) {
    return inner_->Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  const TraceArgs args = {{"worker", request.sender.worker.value()},
                          {"layer", tables_[table].layer},
                          {"slice", request.slice.slice.value()},
                          {"push_step", StepOf(PushOf(request))},
                          {"pull_step", StepOf(PullOf(request))},
                          {"bytes_pushed", static_cast<int64_t>(PayloadBytes(request))}};
  const char* const phase = PushOf(request) != nullptr ? "apply" : "read";
  const ExchangeTrace trace(tracer_, tables_[table].name, args, phase);
  inner_->Exchange(std::move(request), std::move(delivered),
                   [trace, done = std::move(done)](ExchangeReply reply) mutable {
                     if (reply.held_since.has_value()) {
                       trace.BeginAt(*reply.held_since, "replicate");
                     }
                     reply.trace = trace;
                     done(std::move(reply));
                   });
  trace.BeginAfter(phase, "parked");
}

}  // namespace capstan
