#include "kernels/cuda/device_timer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/status_macros.h"

namespace capstan {

DeviceTimer::DeviceTimer(const Options& options, DeviceBuffer flushed, CudaEvent begin,
                         CudaEvent end)
    : options_(options),
      flushed_(std::move(flushed)),
      begin_(std::move(begin)),
      end_(std::move(end)) {}

absl::StatusOr<std::unique_ptr<DeviceTimer>> DeviceTimer::Create(const Options& options) {
  const CudaDevice& device = options.stream->device();
  ASSIGN_OR_RETURN(DeviceBuffer flushed,
                   DeviceBuffer::Allocate(device, options.flush_bytes, "flushing the L2 cache"));
  ASSIGN_OR_RETURN(CudaEvent begin, CudaEvent::Create(device, CudaEvent::Timing::kOn));
  ASSIGN_OR_RETURN(CudaEvent end, CudaEvent::Create(device, CudaEvent::Timing::kOn));
  return std::unique_ptr<DeviceTimer>(
      new DeviceTimer(options, std::move(flushed), std::move(begin), std::move(end)));
}

absl::StatusOr<double> DeviceTimer::Milliseconds(absl::FunctionRef<absl::Status()> operation) {
  CudaStream& stream = *options_.stream;
  RETURN_IF_ERROR(stream.SetBytes(0xff, flushed_.size_bytes(), flushed_.data<void>()));
  RETURN_IF_ERROR(begin_.Record(stream));
  RETURN_IF_ERROR(operation());
  RETURN_IF_ERROR(end_.Record(stream));
  RETURN_IF_ERROR(end_.Wait());
  ASSIGN_OR_RETURN(const absl::Duration duration, CudaEvent::Between(begin_, end_));
  return absl::ToDoubleMilliseconds(duration);
}

absl::StatusOr<double> DeviceTimer::MedianMilliseconds(
    absl::FunctionRef<absl::Status()> operation) {
  std::vector<double> times;
  for (int run = -options_.warm_ups; run < options_.runs; ++run) {
    ASSIGN_OR_RETURN(const double milliseconds, Milliseconds(operation));
    if (run >= 0) times.push_back(milliseconds);
  }
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace capstan
