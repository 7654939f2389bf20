#ifndef COMMON_TRACE_TRACER_H_
#define COMMON_TRACE_TRACER_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/trace/trace_event.h"

namespace capstan {

// Writes the activities of one process and their times into a file. Perfetto and chrome://tracing
// open it; `capstan trace` merges several. Traced classes hold a pointer to it, null when tracing
// is off. After a kill the file has whole events, up to about one second before. Thread-safe.
class Tracer {
 public:
  struct Options {
    std::string path;          // Required. An older file is replaced.
    ClockOffset clock_offset;  // of `clock`
    Clock* clock = nullptr;    // Required; outlives the tracer
    // Later events are only counted. The default makes 80 MB; viewers can open that.
    int64_t max_events = 500'000;
  };
  // A part of an exchange. It ends at the beginning of the next phase.
  struct Phase {
    const char* name;  // a literal
    absl::Time begin;
  };

  // UNAVAILABLE, naming the file, when it cannot be written.
  static absl::StatusOr<std::unique_ptr<Tracer>> Create(const Options& options);
  // Without Finish, the file looks like that of a killed process.
  ~Tracer();

  // Names the process in viewers, as "worker 3". Viewers sort processes by rank.
  void NameProcess(absl::string_view name, int rank);

  // The row of spans with this name, made if need be. Its spans nest or follow one another.
  int Track(const std::string& name);
  void AddSpan(int track, absl::string_view name, absl::Time begin, absl::Time end,
               const TraceArgs& args);
  // An exchange from its first phase to `end`. It has at least one phase. Exchanges may overlap.
  void AddExchange(absl::string_view name, absl::Span<const Phase> phases, absl::Time end,
                   const TraceArgs& args);

  absl::Time Now() const { return options_.clock->Now(); }

  // Closes the file; no event may follow. UNAVAILABLE when an event could not be written.
  absl::Status Finish();

 private:
  Tracer(const Options& options, FILE* file);

  // Adds `count` events, each with a comma and a newline.
  void Append(const std::string& events, int64_t count);
  // Metadata does not count against max_events: viewers need it for all other events.
  void AppendMetadata(const std::string& event) { Append(event + ",\n", /*count=*/0); }
  // Called with file_mu_ held: texts are written in the order in which they are taken.
  std::string TakeUnwritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mu_) ABSL_LOCKS_EXCLUDED(mu_);
  void WriteLocked(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mu_);

  const Options options_;
  const absl::Time begin_;

  Mutex mu_;
  std::map<std::string, int> tracks_ ABSL_GUARDED_BY(mu_);
  uint64_t last_exchange_ ABSL_GUARDED_BY(mu_) = 0;
  std::string unwritten_ ABSL_GUARDED_BY(mu_);
  absl::Time written_at_ ABSL_GUARDED_BY(mu_);
  int64_t events_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;

  Mutex file_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  FILE* file_ ABSL_GUARDED_BY(file_mu_);  // null once finished
  bool has_failed_ ABSL_GUARDED_BY(file_mu_) = false;
};

// Traces its own lifetime as a span of a track.
class TraceSpan {
 public:
  // `tracer` outlives the span; null: tracing is off.
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

#endif  // COMMON_TRACE_TRACER_H_
