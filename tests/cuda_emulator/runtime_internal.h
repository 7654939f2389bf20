#ifndef TESTS_CUDA_EMULATOR_RUNTIME_INTERNAL_H_
#define TESTS_CUDA_EMULATOR_RUNTIME_INTERNAL_H_

#include <cuda_runtime.h>

// Shared by the files of the emulated runtime.
namespace capstan {
namespace emulator {

// The GPU of cudaSetDevice in the calling thread.
int CurrentGpu();
void SetCurrentGpu(int gpu);

// Keeps an error for cudaGetLastError of the calling thread, and returns it.
cudaError_t Told(cudaError_t error);

// The error of a machine without CUDA: no driver, an old driver, or no GPU.
cudaError_t MachineError();

// MachineError, or the failure of the current GPU.
cudaError_t GpuError();

}  // namespace emulator
}  // namespace capstan

#endif  // TESTS_CUDA_EMULATOR_RUNTIME_INTERNAL_H_
