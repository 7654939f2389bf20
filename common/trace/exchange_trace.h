#ifndef COMMON_TRACE_EXCHANGE_TRACE_H_
#define COMMON_TRACE_EXCHANGE_TRACE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/trace/trace_event.h"
#include "common/trace/tracer.h"

namespace capstan {

// The phases of one exchange in this process. The trace is written when the exchange ends. Copies
// trace the same exchange. Without a tracer, nothing happens. Thread-safe.
class ExchangeTrace {
 public:
  ExchangeTrace() = default;
  // Begins with `phase`, a literal. `tracer` outlives the exchange; null: tracing is off.
  ExchangeTrace(Tracer* tracer, absl::string_view name, const TraceArgs& args, const char* phase);

  // Begins the next phase. Does nothing after End.
  void Begin(const char* phase) const;
  // As Begin, if the exchange is still in the phase `current`.
  void BeginAfter(absl::string_view current, const char* phase) const;
  // As Begin, if it was at that time: phases that have begun since are left out. Not before the
  // first phase.
  void BeginAt(absl::Time time, const char* phase) const;
  // Wraps `callback`: the next phase begins before its call.
  absl::AnyInvocable<void()> BeginBefore(const char* phase,
                                         absl::AnyInvocable<void()> callback) const;
  // Adds a number that was not known at the beginning; `name` is a literal. Does nothing after End.
  void AddArg(const char* name, int64_t value) const;
  void End() const;
  // Wraps `callback`: the exchange ends before its call.
  absl::AnyInvocable<void()> EndBefore(absl::AnyInvocable<void()> callback) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // null: tracing is off
};

}  // namespace capstan

#endif  // COMMON_TRACE_EXCHANGE_TRACE_H_
