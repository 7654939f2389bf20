#ifndef TESTS_CUDA_EMULATOR_EMULATOR_H_
#define TESTS_CUDA_EMULATOR_EMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

// For tests: controls the emulated CUDA runtime of the process.
namespace capstan {
namespace emulator {

struct MachineOptions {
  // GPUs of the machine.
  int gpu_count = 1;
  // Memory of each GPU.
  size_t gpu_memory_bytes = size_t{2} << 30;
  // Host memory for page-locking.
  size_t pinned_memory_bytes = size_t{2} << 30;
  // CUDA version of the driver, as from cudaDriverGetVersion; 0: there is no driver.
  int driver_version = 13000;
  // Compute capability of its GPUs: 75 is 7.5.
  int compute_capability = 90;
  // False: the kernels of this program are not built for the GPUs.
  bool has_kernels = true;
};

// Makes this the machine; all its GPUs work. Dies if a stream, event or memory of CUDA exists in
// the process.
void SetMachine(const MachineOptions& options);

// After `skip` others, the next kernel launched or copy queued fails while it runs, with
// cudaErrorIllegalAddress. Its GPU is then lost until SetMachine: earlier operations of its streams
// still run, later ones do not.
void FailLaunch(int skip);
void FailCopy(int skip);

// Memory of GPU `number` in use now.
size_t AllocatedBytes(int number);

// The number of kernels launched by this process.
int64_t LaunchCount();

// The reason of the last kernel's own failure: a barrier or shuffle that is never complete, with
// block and threads. Empty if there was none since SetMachine.
std::string LastKernelFault();

}  // namespace emulator
}  // namespace capstan

#endif  // TESTS_CUDA_EMULATOR_EMULATOR_H_
