#ifndef KERNELS_CUDA_CUDA_EVENT_H_
#define KERNELS_CUDA_CUDA_EVENT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cuda/cuda_device.h"

struct CUevent_st;

namespace capstan {

class CudaStream;

// A mark in a stream. Other streams and threads can wait for it. Recording it again moves it.
// Movable. Thread-compatible: Record and Wait of one event need the caller's order.
class CudaEvent {
 public:
  enum class Timing { kOff, kOn };  // kOn for Between; kOff is cheaper

  // `device` must outlive the event.
  static absl::StatusOr<CudaEvent> Create(const CudaDevice& device, Timing timing);
  ~CudaEvent();
  CudaEvent(CudaEvent&& other) noexcept;
  CudaEvent& operator=(CudaEvent&& other) noexcept;

  // Marks the end of the operations given to `stream` until now.
  absl::Status Record(CudaStream& stream);

  // Blocks the calling thread, asleep, until the stream has reached the mark. Returns at once if
  // the event was never recorded. INTERNAL: something on the GPU has failed.
  absl::Status Wait() const;

  // The time on the GPU from one mark to the other. Both events were made with kOn, recorded, and
  // waited for.
  static absl::StatusOr<absl::Duration> Between(const CudaEvent& begin, const CudaEvent& end);

  CUevent_st* get() const { return event_; }

 private:
  CudaEvent(const CudaDevice* device, CUevent_st* event) : device_(device), event_(event) {}
  void Destroy();

  const CudaDevice* device_;
  CUevent_st* event_;  // null when moved from
};

}  // namespace capstan

#endif  // KERNELS_CUDA_CUDA_EVENT_H_
