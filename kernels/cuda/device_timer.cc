#include "kernels/cuda/device_timer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "kernels/norm.h"

namespace capstan {

DeviceTimer::DeviceTimer(const Options& options, CudaEvent begin, CudaEvent end)
    : options_(options), begin_(std::move(begin)), end_(std::move(end)) {}

absl::StatusOr<std::unique_ptr<DeviceTimer>> DeviceTimer::Create(const Options& options) {
  const CudaDevice& device = options.stream->device();
  ASSIGN_OR_RETURN(CudaEvent begin, CudaEvent::Create(device, CudaEvent::Timing::kOn));
  ASSIGN_OR_RETURN(CudaEvent end, CudaEvent::Create(device, CudaEvent::Timing::kOn));
  std::unique_ptr<DeviceTimer> timer(new DeviceTimer(options, std::move(begin), std::move(end)));
  RETURN_IF_ERROR(timer->AllocateFlushed());
  return timer;
}

absl::Status DeviceTimer::AllocateFlushed() {
  CudaStream& stream = *options_.stream;
  constexpr char kPurpose[] = "flushing the L2 cache";
  const int64_t floats = static_cast<int64_t>(options_.flush_bytes / sizeof(float));
  ASSIGN_OR_RETURN(flushed_,
                   DeviceBuffer::Allocate(stream.device(), options_.flush_bytes, kPurpose));
  ASSIGN_OR_RETURN(flush_result_,
                   DeviceBuffer::Allocate(
                       stream.device(),
                       sizeof(NormResult) + SumOfSquaresScratchBytes(floats, stream), kPurpose));
  return stream.SetBytes(0, flushed_.size_bytes(), flushed_.data<void>());
}

absl::Status DeviceTimer::FlushCache() {
  auto* const result = flush_result_.data<NormResult>();
  return SumOfSquares(static_cast<int64_t>(flushed_.size_bytes() / sizeof(float)),
                      flushed_.data<float>(), result, /*scratch=*/result + 1, *options_.stream);
}

absl::StatusOr<double> DeviceTimer::Milliseconds(absl::FunctionRef<absl::Status()> operation) {
  CudaStream& stream = *options_.stream;
  RETURN_IF_ERROR(FlushCache());
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
