#include "worker/engine/make_cpu_engine.h"

#include <utility>

#include "common/base/status_macros.h"
#include "kernels/cpu/cpu_stream.h"
#include "worker/engine/cpu_engine.h"
#include "worker/training/make_model.h"
#include "worker/training/model_on_cpu.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<Engine>> MakeCpuEngine(const EngineOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Model<CpuStream>> model,
                   MakeModel<CpuStream>(options.model, options.feature_count, options.class_count));
  ASSIGN_OR_RETURN(std::unique_ptr<ModelOnCpu> on_cpu,
                   ModelOnCpu::Create(std::move(model), options.max_samples));
  return std::make_unique<CpuEngine>(std::move(on_cpu), options.tracer);
}

}  // namespace capstan
