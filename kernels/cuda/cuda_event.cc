#include "kernels/cuda/cuda_event.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/cuda_stream.h"

namespace capstan {

absl::StatusOr<CudaEvent> CudaEvent::Create(const CudaDevice& device, Timing timing) {
  RETURN_IF_ERROR(device.MakeCurrent());
  unsigned flags = cudaEventBlockingSync;
  if (timing == Timing::kOff) flags |= cudaEventDisableTiming;
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&event, flags),
                             absl::StrCat(device.name(), ": making an event")));
  return CudaEvent(&device, event);
}

CudaEvent::~CudaEvent() { Destroy(); }

CudaEvent::CudaEvent(CudaEvent&& other) noexcept
    : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  if (this == &other) return *this;
  Destroy();
  device_ = other.device_;
  event_ = std::exchange(other.event_, nullptr);
  return *this;
}

void CudaEvent::Destroy() {
  // An error here belongs to an earlier operation. Other calls report it.
  if (event_ != nullptr && cudaEventDestroy(event_) != cudaSuccess) cudaGetLastError();
  event_ = nullptr;
}

absl::Status CudaEvent::Record(CudaStream& stream) {
  RETURN_IF_ERROR(device_->MakeCurrent());
  const cudaError_t error = cudaEventRecord(event_, stream.get());
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat(device_->name(), ": recording an event"));
}

absl::Status CudaEvent::Wait() const {
  RETURN_IF_ERROR(device_->MakeCurrent());
  const cudaError_t error = cudaEventSynchronize(event_);
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat(device_->name(), ": waiting for an event"));
}

absl::StatusOr<absl::Duration> CudaEvent::Between(const CudaEvent& begin, const CudaEvent& end) {
  RETURN_IF_ERROR(begin.device_->MakeCurrent());
  float milliseconds = 0;
  RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&milliseconds, begin.event_, end.event_),
                             absl::StrCat(begin.device_->name(), ": the time between two events")));
  return absl::Milliseconds(milliseconds);
}

}  // namespace capstan
