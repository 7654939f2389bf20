#include "common/membership/start_trace.h"

#include <optional>

#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/base/status_macros.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {
namespace {

// The first calls are slow: they wait for the connection and touch new memory.
constexpr int kCalls = 20;

absl::StatusOr<ClockOffset> MeasureOnce(CoordinatorEndpoint& coordinator, Clock& clock) {
  OneShot<absl::StatusOr<ClockOffset>> answer(&clock);
  const absl::Time begin = clock.Now();
  CallCoordinator(
      coordinator, v1::ReadClockRequest(), [&](const absl::StatusOr<v1::ReadClockReply>& reply) {
        const absl::Time end = clock.Now();
        if (!reply.ok()) return answer.Set(reply.status());
        const absl::Duration half = (end - begin) / 2;
        answer.Set(ClockOffset{absl::FromUnixNanos(reply->nanoseconds()) - (begin + half), half});
      });
  return answer.Wait();
}

}  // namespace

absl::StatusOr<ClockOffset> MeasureClockOffset(CoordinatorEndpoint& coordinator, Clock& clock) {
  std::optional<ClockOffset> best;
  for (int call = 0; call < kCalls; ++call) {
    ASSIGN_OR_RETURN(const ClockOffset measured, MeasureOnce(coordinator, clock));
    if (!best.has_value() || measured.uncertainty < best->uncertainty) best = measured;
  }
  return *best;
}

absl::StatusOr<std::unique_ptr<Tracer>> StartTrace(const std::string& path,
                                                   CoordinatorEndpoint& coordinator, Clock* clock) {
  Tracer::Options options;
  options.path = path;
  options.clock = clock;
  ASSIGN_OR_RETURN(options.clock_offset, MeasureClockOffset(coordinator, *clock));
  return Tracer::Create(options);
}

}  // namespace capstan
