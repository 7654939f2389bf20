#ifndef COMMON_TRACE_TRACE_SPAN_H_
#define COMMON_TRACE_TRACE_SPAN_H_

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/trace/trace_event.h"
#include "common/trace/tracer.h"

namespace capstan {

// Traces its own lifetime, as a span of a track.
class TraceSpan {
 public:
  // `tracer` outlives the span; null: nothing is traced.
  TraceSpan(Tracer* tracer, int track, std::string name, const TraceArgs& args)
      : tracer_(tracer), track_(track) {
    if (tracer_ == nullptr) return;
    name_ = std::move(name);
    args_ = args;
    begin_ = tracer_->Now();
  }
  ~TraceSpan() {
    if (tracer_ != nullptr) tracer_->AddSpan(track_, name_, begin_, tracer_->Now(), args_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Tracer* const tracer_;
  const int track_;
  std::string name_;
  TraceArgs args_;
  absl::Time begin_;
};

}  // namespace capstan

#endif  // COMMON_TRACE_TRACE_SPAN_H_
