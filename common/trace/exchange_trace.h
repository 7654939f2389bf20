#ifndef COMMON_TRACE_EXCHANGE_TRACE_H_
#define COMMON_TRACE_EXCHANGE_TRACE_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "common/trace/trace_event.h"
#include "common/trace/tracer.h"

namespace capstan {

// The way of one exchange through this process, phase by phase; written when it ends. Copies are of
// the same exchange. One that was made without a tracer does nothing. Thread-safe.
class ExchangeTrace {
 public:
  ExchangeTrace() = default;
  // Begins with `phase`, a literal. `tracer` outlives the exchange; null: nothing is traced.
  ExchangeTrace(Tracer* tracer, absl::string_view name, const TraceArgs& args, const char* phase);

  // The next phase begins; nothing happens after End.
  void Begin(const char* phase) const;
  // As Begin, if the exchange is still in the phase `current`.
  void BeginAfter(absl::string_view current, const char* phase) const;
  // `callback`, before which the next phase begins.
  absl::AnyInvocable<void()> BeginBefore(const char* phase,
                                         absl::AnyInvocable<void()> callback) const;
  void End() const;
  // `callback`, before which the exchange ends.
  absl::AnyInvocable<void()> EndBefore(absl::AnyInvocable<void()> callback) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // null: nothing is traced
};

}  // namespace capstan

#endif  // COMMON_TRACE_EXCHANGE_TRACE_H_
