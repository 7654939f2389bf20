#ifndef TESTS_CUDA_EMULATOR_RUNTIME_TEST_UTIL_H_
#define TESTS_CUDA_EMULATOR_RUNTIME_TEST_UTIL_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/cuda_emulator/emulator.h"

namespace capstan {
namespace emulator {

// Holds up a stream until Open.
class Gate {
 public:
  void Open() { promise_.set_value(); }
  void Wait() { future_.wait(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

inline void WaitAt(std::reference_wrapper<Gate> gate) { gate.get().Wait(); }

inline void Add(int64_t n, float amount, float* values) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    values[i] += amount;
}

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                   Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// A healthy machine with two GPUs; GPU 0 is current. Two streams and memory of 256 floats there.
class RuntimeTest : public ::testing::Test {
 protected:
  static constexpr size_t kCount = 256;
  static constexpr size_t kBytes = kCount * sizeof(float);

  void SetUp() override {
    MachineOptions options;
    options.gpu_count = 2;
    options.gpu_memory_bytes = 1 << 20;
    options.pinned_memory_bytes = 1 << 20;
    SetMachine(options);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&other_stream_, cudaStreamNonBlocking), cudaSuccess);
    void* data = nullptr;
    ASSERT_EQ(cudaMalloc(&data, kBytes), cudaSuccess);
    device_ = static_cast<float*>(data);
    ASSERT_EQ(cudaHostAlloc(&data, kBytes, cudaHostAllocPortable), cudaSuccess);
    host_ = static_cast<float*>(data);
    std::iota(host_, host_ + kCount, 0.0f);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), cudaSuccess);
  }

  void TearDown() override {
    gate_.Open();
    cudaEventDestroy(event_);
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(other_stream_);
    cudaFree(device_);
    cudaFreeHost(host_);
    cudaGetLastError();
    EXPECT_EQ(AllocatedBytes(0) + AllocatedBytes(1), 0u);
    SetMachine({});
  }

  cudaError_t CopyToHost(cudaStream_t stream) {
    return cudaMemcpyAsync(host_, device_, kBytes, cudaMemcpyDeviceToHost, stream);
  }
  cudaError_t CopyToDevice(cudaStream_t stream) {
    return cudaMemcpyAsync(device_, host_, kBytes, cudaMemcpyHostToDevice, stream);
  }
  // Until the gate opens.
  cudaError_t HoldUp(cudaStream_t stream) { return Launch(stream, 1, 1, WaitAt, std::ref(gate_)); }

  // Opens it, waits for the stream, and closes another.
  void OpenGate() {
    gate_.Open();
    cudaStreamSynchronize(stream_);
    gate_ = Gate();
  }

  cudaStream_t stream_;
  cudaStream_t other_stream_;
  cudaEvent_t event_;
  float* device_;
  float* host_;
  Gate gate_;
};

}  // namespace emulator
}  // namespace capstan

#endif  // TESTS_CUDA_EMULATOR_RUNTIME_TEST_UTIL_H_
