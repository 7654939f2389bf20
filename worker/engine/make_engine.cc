#include "worker/engine/make_engine.h"

#include "worker/engine/make_cpu_engine.h"
#include "worker/engine/make_cuda_engine.h"
#include "worker/replay/replay_engine.h"

namespace capstan {

EngineFactory EngineFactoryOf(const DeviceName& device) {
  return [device](const EngineOptions& options) {
    if (options.model.type() == v1::ModelSpec::REPLAY) {
      return ReplayEngine::Create(options.model.replay(), options.clock);
    }
    return device.is_cuda ? MakeCudaEngine(device.number, options) : MakeCpuEngine(options);
  };
}

}  // namespace capstan
