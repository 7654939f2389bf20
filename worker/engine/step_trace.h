#ifndef WORKER_ENGINE_STEP_TRACE_H_
#define WORKER_ENGINE_STEP_TRACE_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/cuda_stream.h"

namespace capstan {

// Writes down when the parts of a few steps ran, on a GPU's streams and on the host, on one time
// line: of single steps, or of all for a Tracer. Costs two timed events a part. Thread-safe.
class StepTrace {
 public:
  struct Span {
    std::string track;     // what ran it, such as "compute"
    std::string name;      // "forward fc1"
    absl::Duration begin;  // since Start
    absl::Duration end;
  };

  // `clock` outlives the trace.
  explicit StepTrace(Clock* clock) : clock_(clock) {}

  // Begins to write down; zero on the time line. `device` outlives what is recorded from here on.
  absl::Status Start(const CudaDevice& device, CudaStream& stream);

  // A part that is queued on `stream` between the two calls. Parts of one track do not overlap.
  absl::Status Begin(const std::string& track, const std::string& name, CudaStream& stream);
  absl::Status End(const std::string& track, CudaStream& stream);

  // A part that the host did, or waited for, until now; left out when it began before Start.
  void AddHost(const std::string& track, const std::string& name, absl::Time begin);

  // Ends, when the streams have ended what they were given; the spans by time of beginning.
  absl::StatusOr<std::vector<Span>> Finish();

  // The spans on streams that had ended, in the queue, when this was called last; they are
  // forgotten. Blocks until they have run: for a trace of all steps, asked once a step.
  absl::StatusOr<std::vector<Span>> Take();

  // Zero on the time line.
  absl::Time origin() const;

 private:
  struct DeviceSpan {
    std::string track;
    std::string name;
    CudaEvent begin;
    CudaEvent end;
    bool is_open = true;
  };

  absl::StatusOr<Span> HasRunLocked(const DeviceSpan& span) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock* const clock_;

  mutable Mutex mu_;
  const CudaDevice* device_ ABSL_GUARDED_BY(mu_) = nullptr;  // null while nothing is recorded
  std::unique_ptr<CudaEvent> origin_ ABSL_GUARDED_BY(mu_);
  absl::Time host_origin_ ABSL_GUARDED_BY(mu_);
  std::deque<DeviceSpan> device_spans_ ABSL_GUARDED_BY(mu_);
  size_t takeable_ ABSL_GUARDED_BY(mu_) = 0;  // of device_spans_, the first ones
  std::vector<Span> host_spans_ ABSL_GUARDED_BY(mu_);
};

// The spans as lines of text with a bar each, `width` columns for the whole time.
std::string DrawSpans(const std::vector<StepTrace::Span>& spans, int width);

}  // namespace capstan

#endif  // WORKER_ENGINE_STEP_TRACE_H_
