#ifndef COMMON_TRACE_TRACE_EVENT_H_
#define COMMON_TRACE_TRACE_EVENT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/trace/clock_offset.h"

// Events of the Chrome trace event format, each a JSON object on a line, without what separates
// them. Times count from the beginning of the trace. The process is number 1 in its own file.

namespace capstan {

// Numbers that viewers show with an event; their names are literals.
using TraceArgs = absl::InlinedVector<std::pair<const char*, int64_t>, 6>;

// Names of the events that only Capstan reads.
inline constexpr char kClockEvent[] = "capstan_clock";  // the first of each file
inline constexpr char kEndEvent[] = "capstan_end";      // the last, unless the process was killed

// The track that exchanges belong to. Not 0, which is the idle thread to some viewers.
inline constexpr int kExchangesTrack = 1;

// When the trace began by the process's own clock, and how far that is off.
std::string ClockEvent(absl::Time begin, const ClockOffset& offset);
// `left_out`: events for which there was no room.
std::string EndEvent(int64_t left_out);

// "worker 3"; viewers show processes by rank.
std::string ProcessNameEvent(absl::string_view name);
std::string ProcessRankEvent(int rank);
std::string TrackNameEvent(int track, absl::string_view name);

// Something that took from `begin` to `end` on a track.
std::string SpanEvent(int track, absl::string_view name, absl::Duration begin, absl::Duration end,
                      const TraceArgs& args);
// The two ends of something that overlaps others of its kind. What has the same id nests.
std::string AsyncBeginEvent(uint64_t id, absl::string_view name, absl::Duration time,
                            const TraceArgs& args);
std::string AsyncEndEvent(uint64_t id, absl::string_view name, absl::Duration time);

}  // namespace capstan

#endif  // COMMON_TRACE_TRACE_EVENT_H_
