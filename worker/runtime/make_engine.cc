#include "worker/runtime/make_engine.h"

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "worker/engine/cpu_engine.h"
#include "worker/engine/cpu_trainer.h"
#include "worker/engine/local_steps_engine.h"
#include "worker/models/replay/replay_engine.h"
#include "worker/models/replay/replay_trainer.h"

#ifdef CAPSTAN_WITH_CUDA
#include "worker/engine/cuda_engine.h"
#include "worker/engine/cuda_trainer.h"
#endif

namespace capstan {

namespace {

#ifdef CAPSTAN_WITH_CUDA
absl::StatusOr<std::unique_ptr<LocalTrainer>> MakeCudaTrainer(int device_number,
                                                              const EngineOptions& options) {
  return CudaTrainer::Create(device_number, options);
}
#else
absl::Status NoCudaError() {
  return absl::UnimplementedError(
      "--device=cuda: this program was built without CUDA; build it with `bazel build "
      "--config=cuda //...`, or use --device=cpu");
}
absl::StatusOr<std::unique_ptr<Engine>> MakeCudaEngine(int /*device_number*/,
                                                       const EngineOptions& /*options*/) {
  return NoCudaError();
}
absl::StatusOr<std::unique_ptr<LocalTrainer>> MakeCudaTrainer(int /*device_number*/,
                                                              const EngineOptions& /*options*/) {
  return NoCudaError();
}
#endif

absl::StatusOr<std::unique_ptr<LocalTrainer>> MakeTrainer(const DeviceName& device,
                                                          const EngineOptions& options) {
  if (options.model.type() == v1::ModelSpec::REPLAY) return ReplayTrainer::Create(options);
  return device.is_cuda ? MakeCudaTrainer(device.number, options) : CpuTrainer::Create(options);
}

}  // namespace

EngineFactory EngineFactoryOf(const DeviceName& device, Tracer* tracer) {
  return [device, tracer](EngineOptions options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    options.tracer = tracer;
    if (options.local_steps.has_value()) {
      ASSIGN_OR_RETURN(std::unique_ptr<LocalTrainer> trainer, MakeTrainer(device, options));
      return LocalStepsEngine::Create(std::move(trainer), options);
    }
    if (options.model.type() == v1::ModelSpec::REPLAY) {
      return ReplayEngine::Create(options.model.replay(), options.clock, tracer);
    }
    return device.is_cuda ? MakeCudaEngine(device.number, options) : MakeCpuEngine(options);
  };
}

}  // namespace capstan
