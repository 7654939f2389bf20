#include "worker/engine/make_engine.h"

#include "worker/engine/make_cpu_engine.h"
#include "worker/engine/make_cuda_engine.h"
#include "worker/replay/replay_engine.h"

namespace capstan {

EngineFactory EngineFactoryOf(const DeviceName& device, Tracer* tracer) {
  return [device, tracer](EngineOptions options) {
    options.tracer = tracer;
    if (options.model.type() == v1::ModelSpec::REPLAY) {
      return ReplayEngine::Create(options.model.replay(), options.clock, tracer);
    }
    return device.is_cuda ? MakeCudaEngine(device.number, options) : MakeCpuEngine(options);
  };
}

}  // namespace capstan
