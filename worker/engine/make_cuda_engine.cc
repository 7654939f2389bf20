#include "worker/engine/make_cuda_engine.h"

#include <utility>

#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_stream.h"
#include "worker/engine/cuda_engine.h"
#include "worker/training/make_model.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<Engine>> MakeCudaEngine(int device_number,
                                                       const EngineOptions& options) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Model<CudaStream>> model,
      MakeModel<CudaStream>(options.model, options.feature_count, options.class_count));
  CudaEngine::Options cuda;
  cuda.device_number = device_number;
  cuda.feature_count = options.feature_count;
  cuda.max_samples = options.max_samples;
  cuda.clock = options.clock;
  cuda.tracer = options.tracer;
  return CudaEngine::Create(std::move(model), cuda);
}

}  // namespace capstan
