#ifndef WORKER_ENGINE_MAKE_ENGINE_H_
#define WORKER_ENGINE_MAKE_ENGINE_H_

#include "common/trace/tracer.h"
#include "worker/engine/device_name.h"
#include "worker/engine/engine_factory.h"

namespace capstan {

// The engines that compute on `device`. `tracer` outlives them; null: nothing is traced.
EngineFactory EngineFactoryOf(const DeviceName& device, Tracer* tracer);

}  // namespace capstan

#endif  // WORKER_ENGINE_MAKE_ENGINE_H_
