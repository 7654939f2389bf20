#include "common/trace/exchange_trace.h"

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "common/base/mutex.h"

namespace capstan {

struct ExchangeTrace::State {
  Tracer* tracer;
  std::string name;
  TraceArgs args;

  Mutex mu;
  absl::InlinedVector<Tracer::Phase, 3> phases ABSL_GUARDED_BY(mu);  // empty once it has ended
};

ExchangeTrace::ExchangeTrace(Tracer* tracer, absl::string_view name, const TraceArgs& args,
                             const char* phase) {
  if (tracer == nullptr) return;
  state_ = std::make_shared<State>();
  state_->tracer = tracer;
  state_->name = std::string(name);
  state_->args = args;
  MutexLock lock(&state_->mu);
  state_->phases.push_back({phase, tracer->Now()});
}

void ExchangeTrace::Begin(const char* phase) const {
  if (state_ == nullptr) return;
  MutexLock lock(&state_->mu);
  if (!state_->phases.empty()) state_->phases.push_back({phase, state_->tracer->Now()});
}

absl::AnyInvocable<void()> ExchangeTrace::BeginBefore(const char* phase,
                                                      absl::AnyInvocable<void()> callback) const {
  if (state_ == nullptr) return callback;
  return [trace = *this, phase, callback = std::move(callback)]() mutable {
    trace.Begin(phase);
    callback();
  };
}

void ExchangeTrace::End() const {
  if (state_ == nullptr) return;
  absl::InlinedVector<Tracer::Phase, 3> phases;
  absl::Time end;
  {
    MutexLock lock(&state_->mu);
    phases.swap(state_->phases);
    end = state_->tracer->Now();
  }
  if (!phases.empty()) state_->tracer->AddExchange(state_->name, phases, end, state_->args);
}

}  // namespace capstan
