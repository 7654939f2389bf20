#ifndef KERNELS_CUDA_DEVICE_ARRAY_H_
#define KERNELS_CUDA_DEVICE_ARRAY_H_

#include <glog/logging.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"

namespace capstan {

// The GPU on which a test runs, with one stream.
struct TestGpu {
  TestGpu() {
    auto opened = CudaDevice::Open(0);
    CHECK(opened.ok()) << opened.status();
    device = *std::move(opened);
    auto created = CudaStream::Create(*device, CudaStream::Blas::kWithWorkspace);
    CHECK(created.ok()) << created.status();
    stream = *std::move(created);
  }

  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<CudaStream> stream;
};

// A test's array in a GPU's memory, between guards that no operation may touch. `gpu` must outlive
// it.
template <typename T>
class DeviceArray {
 public:
  // `shift`: elements by which the array starts behind an address aligned to 256 bytes.
  DeviceArray(const std::vector<T>& values, TestGpu& gpu, size_t shift = 0)
      : gpu_(gpu), size_(values.size()), shift_(shift), guard_(256 / sizeof(T)) {
    std::vector<T> all(2 * guard_ + shift_ + size_);
    std::memset(static_cast<void*>(all.data()), kGuardByte, all.size() * sizeof(T));
    std::copy(values.begin(), values.end(), all.begin() + static_cast<ptrdiff_t>(offset()));
    auto buffer = DeviceBuffer::Allocate(*gpu.device, all.size() * sizeof(T), "a test");
    CHECK(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
    CHECK(gpu.stream->CopyToDevice(all.data(), all.size() * sizeof(T), buffer_.data<T>()).ok());
    CHECK(gpu.stream->Synchronize().ok());
  }

  T* data() const { return buffer_.data<T>() + offset(); }
  int64_t size() const { return static_cast<int64_t>(size_); }

  // What is there once all that is queued has ended; expects the guards untouched.
  std::vector<T> Download() const {
    std::vector<T> all(buffer_.size_bytes() / sizeof(T));
    CHECK(gpu_.stream->CopyToHost(buffer_.data<T>(), buffer_.size_bytes(), all.data()).ok());
    const absl::Status status = gpu_.stream->Synchronize();
    CHECK(status.ok()) << status;
    const auto begin = all.begin() + static_cast<ptrdiff_t>(offset());
    const auto end = begin + static_cast<ptrdiff_t>(size_);
    const std::vector<T> values(begin, end);
    ExpectGuard(std::vector<T>(all.begin(), begin));
    ExpectGuard(std::vector<T>(end, all.end()));
    return values;
  }

 private:
  static constexpr unsigned char kGuardByte = 0xa5;

  size_t offset() const { return guard_ + shift_; }

  static void ExpectGuard(const std::vector<T>& guard) {
    const std::vector<unsigned char> expected(guard.size() * sizeof(T), kGuardByte);
    EXPECT_EQ(std::memcmp(guard.data(), expected.data(), expected.size()), 0)
        << "written outside of the array";
  }

  TestGpu& gpu_;
  size_t size_;
  size_t shift_;
  size_t guard_;
  DeviceBuffer buffer_;
};

// Whether all bits are the same, also those of NaN.
template <typename T>
bool HasSameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace capstan

#endif  // KERNELS_CUDA_DEVICE_ARRAY_H_
