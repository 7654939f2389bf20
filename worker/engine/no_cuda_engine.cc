#include "absl/status/status.h"
#include "worker/engine/make_cuda_engine.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<Engine>> MakeCudaEngine(int /*device_number*/,
                                                       const EngineOptions& /*options*/) {
  return absl::UnimplementedError(
      "--device=cuda: this program was built without CUDA; build it with `bazel build "
      "--config=cuda "
      "//...`, or use --device=cpu");
}

}  // namespace capstan
