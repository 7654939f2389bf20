#ifndef TESTS_BENCHMARK_GPU_IDLE_MODEL_H_
#define TESTS_BENCHMARK_GPU_IDLE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_stream.h"
#include "worker/models/training/model.h"

namespace capstan {

// Has the layers of another model, but computes nothing: its gradients are 0. Its training moves
// the same bytes in the same order. Used by one thread.
class IdleModel : public Model<CudaStream> {
 public:
  explicit IdleModel(std::unique_ptr<Model<CudaStream>> model) : model_(std::move(model)) {}

  const std::vector<Layer>& layers() const override { return model_->layers(); }
  const std::vector<v1::TableSpec>& tables() const override { return model_->tables(); }
  size_t WorkspaceBytes(int64_t, const CudaStream&) const override { return 0; }
  void UseWorkspace(void*, int64_t, const CudaStream&) override {}

  absl::Status Forward(const Batch&, Parameters,
                       absl::FunctionRef<absl::Status(int layer)> wait_for_layer,
                       BatchResult* result, CudaStream& stream) override {
    for (size_t layer = 0; layer < layers().size(); ++layer) {
      RETURN_IF_ERROR(wait_for_layer(static_cast<int>(layer)));
    }
    return stream.SetBytes(/*value=*/0, sizeof(BatchResult), result);
  }

  absl::Status Backward(const Batch&, Parameters, Gradients gradients,
                        absl::FunctionRef<absl::Status(int layer)> gradient_ready,
                        CudaStream& stream) override {
    for (int layer = static_cast<int>(layers().size()) - 1; layer >= 0; --layer) {
      for (const int table : layers()[layer].tables) {
        if (has_cleared_) break;
        RETURN_IF_ERROR(stream.SetBytes(/*value=*/0, gradients[table].size() * sizeof(float),
                                        gradients[table].data()));
      }
      RETURN_IF_ERROR(gradient_ready(layer));
    }
    has_cleared_ = true;
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Model<CudaStream>> model_;
  bool has_cleared_ = false;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_GPU_IDLE_MODEL_H_
