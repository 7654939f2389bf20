#ifndef KERNELS_CUDA_EMULATOR_EMULATOR_H_
#define KERNELS_CUDA_EMULATOR_EMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

// What a test says to the emulated CUDA runtime of its process.
namespace capstan {
namespace emulator {

struct MachineOptions {
  // GPUs of the machine.
  int gpu_count = 1;
  // Memory of each GPU.
  size_t gpu_memory_bytes = size_t{2} << 30;
  // Host memory that can be page-locked.
  size_t pinned_memory_bytes = size_t{2} << 30;
  // CUDA version that the driver is for, as cudaDriverGetVersion has it; 0: there is no driver.
  int driver_version = 13000;
  // Whether the kernels of this program are built for the GPUs.
  bool has_kernels = true;
};

// From now on the machine is this one, and its GPUs work. Nothing of CUDA may exist in the process:
// no stream, event or memory; dies when it does.
void SetMachine(const MachineOptions& options);

// The kernel launched, or copy queued, after `skip` others fails while it runs, with
// cudaErrorIllegalAddress: its GPU is lost until SetMachine. Until then everything that its streams
// had before it runs, and nothing after it.
void FailLaunch(int skip);
void FailCopy(int skip);

// Memory of GPU `number` that is allocated now.
size_t AllocatedBytes(int number);

// Kernels that were launched by this process.
int64_t LaunchCount();

// Why the last kernel that failed by itself did: a barrier or a shuffle that can never be complete,
// with block and threads. Empty when none did since SetMachine.
std::string LastKernelFault();

}  // namespace emulator
}  // namespace capstan

#endif  // KERNELS_CUDA_EMULATOR_EMULATOR_H_
