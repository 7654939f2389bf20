#ifndef WORKER_ENGINE_LAYER_TRACE_H_
#define WORKER_ENGINE_LAYER_TRACE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/trace/trace_span.h"
#include "common/trace/tracer.h"

namespace capstan {

// The track of the training thread.
inline constexpr char kTrainingTrack[] = "training";

// Traces the training thread's work for one layer after the other: "wait fc1", "forward fc1". Used
// by that thread.
class LayerTrace {
 public:
  // `layers`: their names. `tracer` outlives this object; null: nothing is traced.
  LayerTrace(Tracer* tracer, std::vector<std::string> layers)
      : tracer_(tracer),
        layers_(std::move(layers)),
        track_(tracer == nullptr ? 0 : tracer->Track(kTrainingTrack)) {}

  // Ends the current span, and begins "what layer".
  void Begin(const char* what, int layer) {
    if (tracer_ == nullptr) return;
    span_.reset();
    span_.emplace(tracer_, track_, absl::StrCat(what, " ", layers_[layer]),
                  TraceArgs{{"layer", layer}});
  }
  void End() { span_.reset(); }

 private:
  Tracer* const tracer_;
  const std::vector<std::string> layers_;
  const int track_;
  std::optional<TraceSpan> span_;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_LAYER_TRACE_H_
