#include "worker/runtime/make_engine.h"

#include "absl/status/status.h"
#include "worker/engine/cpu_engine.h"
#include "worker/models/replay/replay_engine.h"

#ifdef CAPSTAN_WITH_CUDA
#include "worker/engine/cuda_engine.h"
#endif

namespace capstan {

#ifndef CAPSTAN_WITH_CUDA
namespace {

absl::StatusOr<std::unique_ptr<Engine>> MakeCudaEngine(int /*device_number*/,
                                                       const EngineOptions& /*options*/) {
  return absl::UnimplementedError(
      "--device=cuda: this program was built without CUDA; build it with `bazel build "
      "--config=cuda //...`, or use --device=cpu");
}

}  // namespace
#endif

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
