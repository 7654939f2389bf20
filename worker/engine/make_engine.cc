#include "worker/engine/make_engine.h"

#include "worker/engine/make_cpu_engine.h"
#include "worker/engine/make_cuda_engine.h"

namespace capstan {

EngineFactory EngineFactoryOf(const DeviceName& device) {
  if (!device.is_cuda) return MakeCpuEngine;
  return [number = device.number](const EngineOptions& options) {
    return MakeCudaEngine(number, options);
  };
}

}  // namespace capstan
