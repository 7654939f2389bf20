#ifndef WORKER_ENGINE_MAKE_CPU_ENGINE_H_
#define WORKER_ENGINE_MAKE_CPU_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_factory.h"

namespace capstan {

// The errors are those of MakeModel and ModelOnCpu::Create.
absl::StatusOr<std::unique_ptr<Engine>> MakeCpuEngine(const EngineOptions& options);

}  // namespace capstan

#endif  // WORKER_ENGINE_MAKE_CPU_ENGINE_H_
