#include "common/trace/exchange_trace.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "common/base/mutex.h"

namespace capstan {

struct ExchangeTrace::State {
  void BeginLocked(const char* phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (!phases.empty()) phases.push_back({phase, tracer->Now()});
  }

  void End() {
    absl::InlinedVector<Tracer::Phase, 4> ended;
    TraceArgs ended_args;
    absl::Time end;
    {
      MutexLock lock(&mu);
      ended.swap(phases);
      ended_args.swap(args);
      end = tracer->Now();
    }
    if (!ended.empty()) tracer->AddExchange(name, ended, end, ended_args);
  }

  Tracer* tracer;
  std::string name;

  Mutex mu;
  TraceArgs args ABSL_GUARDED_BY(mu);
  absl::InlinedVector<Tracer::Phase, 4> phases ABSL_GUARDED_BY(mu);  // empty after the end
};

ExchangeTrace::ExchangeTrace(Tracer* tracer, absl::string_view name, const TraceArgs& args,
                             const char* phase) {
  if (tracer == nullptr) return;
  state_ = std::make_shared<State>();
  state_->tracer = tracer;
  state_->name = std::string(name);
  MutexLock lock(&state_->mu);
  state_->args = args;
  state_->phases.push_back({phase, tracer->Now()});
}

void ExchangeTrace::Begin(const char* phase) const {
  if (state_ == nullptr) return;
  MutexLock lock(&state_->mu);
  state_->BeginLocked(phase);
}

void ExchangeTrace::BeginAfter(absl::string_view current, const char* phase) const {
  if (state_ == nullptr) return;
  MutexLock lock(&state_->mu);
  if (!state_->phases.empty() && state_->phases.back().name == current) state_->BeginLocked(phase);
}

void ExchangeTrace::BeginAt(absl::Time time, const char* phase) const {
  if (state_ == nullptr) return;
  MutexLock lock(&state_->mu);
  auto& phases = state_->phases;
  while (phases.size() > 1 && phases.back().begin >= time) phases.pop_back();
  if (!phases.empty()) phases.push_back({phase, std::max(time, phases.back().begin)});
}

void ExchangeTrace::AddArg(const char* name, int64_t value) const {
  if (state_ == nullptr) return;
  MutexLock lock(&state_->mu);
  state_->args.emplace_back(name, value);
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
  if (state_ != nullptr) state_->End();
}

absl::AnyInvocable<void()> ExchangeTrace::EndBefore(absl::AnyInvocable<void()> callback) const {
  if (state_ == nullptr) return callback;
  return [trace = *this, callback = std::move(callback)]() mutable {
    trace.End();
    callback();
  };
}

}  // namespace capstan
