#ifndef WORKER_ENGINE_BUSY_WORK_H_
#define WORKER_ENGINE_BUSY_WORK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"

namespace capstan {

// Slow work for a stream, for tests of the order of streams. It takes long compared with the host's
// own calls. Outlives the work.
class BusyWork {
 public:
  explicit BusyWork(const CudaDevice& device)
      : memory_(DeviceBuffer::Allocate(device, size_t{64} << 20, "the test").value()) {}

  // Takes about 0.3 ms on an H200, and 0.1 s in the emulator.
  absl::Status Queue(CudaStream& stream) {
    absl::Status status;
    for (int i = 0; i < 16 && status.ok(); ++i) {
      status = stream.SetBytes(0xff, memory_.size_bytes(), memory_.data<void>());
    }
    return status;
  }

 private:
  const DeviceBuffer memory_;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_BUSY_WORK_H_
