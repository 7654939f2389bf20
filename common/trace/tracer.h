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
#include "common/trace/clock_offset.h"
#include "common/trace/trace_event.h"

namespace capstan {

// Writes what one process does, and when, into a file that Perfetto and chrome://tracing open, and
// `capstan trace` merges with others. Whoever may be traced has a pointer to it, null when nothing
// is. A process that is killed leaves whole events, up to about a second before. Thread-safe.
class Tracer {
 public:
  struct Options {
    std::string path;              // Required: the file, which is replaced
    ClockOffset clock_offset;      // of `clock`
    Clock* clock = nullptr;        // Required; outlives the tracer
    int64_t max_events = 500'000;  // what comes later is only counted; 80 MB, as viewers can open
  };
  // A part of an exchange; each begins where the one before ends.
  struct Phase {
    const char* name;  // a literal
    absl::Time begin;
  };

  // UNAVAILABLE, naming the file, when it cannot be written.
  static absl::StatusOr<std::unique_ptr<Tracer>> Create(const Options& options);
  // Leaves the file as that of a process that was killed, unless Finish was called.
  ~Tracer();

  // Whose trace it is, such as "worker 3", once that is known; viewers show processes by rank.
  void NameProcess(absl::string_view name, int rank);

  // A row of spans that nest or follow one another; of each name there is one.
  int Track(const std::string& name);
  void AddSpan(int track, absl::string_view name, absl::Time begin, absl::Time end,
               const TraceArgs& args);
  // An exchange from its first phase, of which it has one or more, to `end`. Exchanges overlap.
  void AddExchange(absl::string_view name, absl::Span<const Phase> phases, absl::Time end,
                   const TraceArgs& args);

  absl::Time Now() const { return options_.clock->Now(); }

  // There are no more events. UNAVAILABLE when any of them could not be written.
  absl::Status Finish();

 private:
  Tracer(const Options& options, FILE* file);

  // `count` events, each with a comma and the end of its line.
  void Append(const std::string& events, int64_t count);
  // For what viewers need to show the others: there is always room.
  void AppendMetadata(const std::string& event) { Append(event + ",\n", /*count=*/0); }
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

  Mutex file_mu_;
  FILE* file_ ABSL_GUARDED_BY(file_mu_);  // null once finished
  bool has_failed_ ABSL_GUARDED_BY(file_mu_) = false;
};

}  // namespace capstan

#endif  // COMMON_TRACE_TRACER_H_
