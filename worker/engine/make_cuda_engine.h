#ifndef WORKER_ENGINE_MAKE_CUDA_ENGINE_H_
#define WORKER_ENGINE_MAKE_CUDA_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_factory.h"

namespace capstan {

// An engine on GPU `device_number`. The errors are those of MakeModel and CudaEngine::Create;
// UNIMPLEMENTED, with what to do, when this program was built without CUDA (no_cuda_engine.cc).
absl::StatusOr<std::unique_ptr<Engine>> MakeCudaEngine(int device_number,
                                                       const EngineOptions& options);

}  // namespace capstan

#endif  // WORKER_ENGINE_MAKE_CUDA_ENGINE_H_
