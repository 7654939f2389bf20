#ifndef WORKER_ENGINE_CPU_DEVICE_NAME_H_
#define WORKER_ENGINE_CPU_DEVICE_NAME_H_

#include <string>

namespace capstan {

// The name of this machine's CPU as an engine's device, with the matrix products' code:
// "cpu (AMD EPYC 9B14, family 25 model 17, OpenBLAS 0.3.21 Zen)".
std::string CpuDeviceName();

}  // namespace capstan

#endif  // WORKER_ENGINE_CPU_DEVICE_NAME_H_
