#ifndef COMMON_TRACE_TRACE_EVENT_H_
#define COMMON_TRACE_TRACE_EVENT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Events of the Chrome trace event format. Each is a JSON object on one line, without a comma.
// Times count from the beginning of the trace. The process has number 1 in its own file.

namespace capstan {

// Difference between the coordinator's clock and the clock of this process.
struct ClockOffset {
  absl::Duration offset;       // the coordinator's time minus this process's
  absl::Duration uncertainty;  // largest error of `offset`, either way
};

// Numbers that viewers show with an event. Their names are literals.
using TraceArgs = absl::InlinedVector<std::pair<const char*, int64_t>, 6>;

// Names of the events for Capstan's own readers.
inline constexpr char kClockEvent[] = "capstan_clock";  // the first of each file
inline constexpr char kEndEvent[] = "capstan_end";      // the last, unless the process was killed

// The track of exchanges. Some viewers take track 0 for the idle thread.
inline constexpr int kExchangesTrack = 1;

// The beginning of the trace by the process's own clock, and the offset of that clock.
std::string ClockEvent(absl::Time begin, const ClockOffset& offset);
// `left_out`: number of events for which the file had no room.
std::string EndEvent(int64_t left_out);

// "worker 3". Viewers sort processes by rank.
std::string ProcessNameEvent(absl::string_view name);
std::string ProcessRankEvent(int rank);
std::string TrackNameEvent(int track, absl::string_view name);

// An activity on a track, from `begin` to `end`.
std::string SpanEvent(int track, absl::string_view name, absl::Duration begin, absl::Duration end,
                      const TraceArgs& args);
// The two ends of an activity that may overlap others. Activities with one id nest.
std::string AsyncBeginEvent(uint64_t id, absl::string_view name, absl::Duration time,
                            const TraceArgs& args);
std::string AsyncEndEvent(uint64_t id, absl::string_view name, absl::Duration time);

}  // namespace capstan

#endif  // COMMON_TRACE_TRACE_EVENT_H_
