#ifndef WORKER_ENGINE_MAKE_ENGINE_H_
#define WORKER_ENGINE_MAKE_ENGINE_H_

#include "worker/engine/device_name.h"
#include "worker/engine/engine_factory.h"

namespace capstan {

// The engines that compute on `device`.
EngineFactory EngineFactoryOf(const DeviceName& device);

}  // namespace capstan

#endif  // WORKER_ENGINE_MAKE_ENGINE_H_
