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

// Records the times of parts of steps, on a GPU's streams and on the host, on one time line. Start
// and Finish enclose a few steps; Take serves a trace of all steps. A part costs two timed events.
// Thread-safe.
class StepTrace {
 public:
  struct Span {
    std::string track;     // such as "compute"
    std::string name;      // "forward fc1"
    absl::Duration begin;  // since Start
    absl::Duration end;
  };

  // `clock` outlives the trace.
  explicit StepTrace(Clock* clock) : clock_(clock) {}

  // Begins the recording, at zero on the time line. `device` outlives all later parts.
  absl::Status Start(const CudaDevice& device, CudaStream& stream);

  // Enclose the queueing of a part on `stream`. Parts of one track do not overlap.
  absl::Status Begin(const std::string& track, const std::string& name, CudaStream& stream);
  absl::Status End(const std::string& track, CudaStream& stream);

  // Adds a part of the host that ends now. Left out if it began before Start.
  void AddHost(const std::string& track, const std::string& name, absl::Time begin);

  // Ends the recording. Waits until the parts have run; returns them sorted by their beginning.
  absl::StatusOr<std::vector<Span>> Finish();

  // Removes and returns the parts whose End was called before the last Take. Blocks until they have
  // run. Called once a step, so it waits for the step before alone.
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
