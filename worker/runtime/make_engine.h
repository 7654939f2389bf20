#ifndef WORKER_RUNTIME_MAKE_ENGINE_H_
#define WORKER_RUNTIME_MAKE_ENGINE_H_

#include "common/trace/tracer.h"
#include "worker/engine/device_name.h"
#include "worker/engine/engine.h"

namespace capstan {

// Makes the engine of a job's model: a ReplayEngine for a replayed network, else an engine on
// `device`; a LocalStepsEngine, on a CPU, for local steps. A GPU is UNIMPLEMENTED in a build
// without CUDA. `tracer` outlives the engines; null: nothing is traced.
EngineFactory EngineFactoryOf(const DeviceName& device, Tracer* tracer);

}  // namespace capstan

#endif  // WORKER_RUNTIME_MAKE_ENGINE_H_
