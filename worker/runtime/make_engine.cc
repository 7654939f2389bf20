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
#endif

namespace capstan {

namespace {

#ifndef CAPSTAN_WITH_CUDA
absl::StatusOr<std::unique_ptr<Engine>> MakeCudaEngine(int /*device_number*/,
                                                       const EngineOptions& /*options*/) {
  return absl::UnimplementedError(
      "--device=cuda: this program was built without CUDA; build it with `bazel build "
      "--config=cuda //...`, or use --device=cpu");
}
#endif

absl::StatusOr<std::unique_ptr<LocalTrainer>> MakeTrainer(const DeviceName& device,
                                                          const EngineOptions& options) {
  if (options.model.type() == v1::ModelSpec::REPLAY) return ReplayTrainer::Create(options);
  if (!device.is_cuda) return CpuTrainer::Create(options);
  return absl::UnimplementedError(
      "--device=cuda: expected cpu, as built-in models have local steps on CPUs only; use "
      "--device=cpu, or a program with capstan.torch.LocalSteps");
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
