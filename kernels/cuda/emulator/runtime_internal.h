#ifndef KERNELS_CUDA_EMULATOR_RUNTIME_INTERNAL_H_
#define KERNELS_CUDA_EMULATOR_RUNTIME_INTERNAL_H_

#include <cuda_runtime.h>

// What the files of the emulated runtime share.
namespace capstan {
namespace emulator {

// The GPU of cudaSetDevice in the calling thread.
int CurrentGpu();
void SetCurrentGpu(int gpu);

// Keeps an error for cudaGetLastError of the calling thread, and returns it.
cudaError_t Told(cudaError_t error);

// Why nothing of CUDA works on this machine: no driver, one that is too old, no GPU.
cudaError_t MachineError();

// MachineError, or what has failed on the current GPU.
cudaError_t GpuError();

}  // namespace emulator
}  // namespace capstan

#endif  // KERNELS_CUDA_EMULATOR_RUNTIME_INTERNAL_H_
