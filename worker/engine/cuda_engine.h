#ifndef WORKER_ENGINE_CUDA_ENGINE_H_
#define WORKER_ENGINE_CUDA_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/tensor/host_buffer.h"
#include "common/trace/tracer.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/pinned_pool.h"
#include "worker/client/parameter_mirror.h"
#include "worker/engine/batch_feed.h"
#include "worker/engine/device_codecs.h"
#include "worker/engine/engine.h"
#include "worker/engine/gradient_sender.h"
#include "worker/engine/layer_trace.h"
#include "worker/engine/step_trace.h"
#include "worker/models/training/model.h"

namespace capstan {

// Computes on a GPU with its own copy of the parameters. One stream computes, one copies in, one
// copies out, and events order them. All memory is taken at the start. ParameterMirror's calls may
// come from any thread, all others come from one.
//   reply of a slice -> copied in -----> layer's forward -> ... -> layer's backward
//   next batch       -> copied in                                   -> copied out -> pushed
class CudaEngine : public Engine, public ParameterMirror {
 public:
  struct Options {
    int device_number = 0;
    int64_t feature_count = 0;  // Required: of a sample
    int64_t max_samples = 0;    // Required: of a batch
    Clock* clock = nullptr;     // Required; outlives the engine
    // Optional; outlives the engine. Gets the parts of steps while it records.
    StepTrace* trace = nullptr;
    // Optional; outlives the engine. Gets all steps. Null if `trace` is set.
    Tracer* tracer = nullptr;
  };

  // The errors are those of CudaDevice::Open, and RESOURCE_EXHAUSTED without enough memory.
  static absl::StatusOr<std::unique_ptr<CudaEngine>> Create(
      std::unique_ptr<Model<CudaStream>> model, const Options& options);
  ~CudaEngine() override;

  const std::string& device_name() const override { return device_->name(); }
  const std::vector<v1::TableSpec>& tables() const override { return model_->tables(); }
  bool is_replaceable() const override { return true; }
  ParameterMirror* mirror() override { return this; }
  std::optional<CopiedBytes> copied_bytes() const override {
    return CopiedBytes{device_->bytes_to_device(), device_->bytes_to_host()};
  }

  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  absl::StatusOr<BatchResult> Result() override;
  absl::Status Finish() override;

  // Begins options.trace, between two steps.
  absl::Status StartTrace();

  absl::StatusOr<std::unique_ptr<GradientEncoder>> UseCodecs(const CodecPlan& plan) override;
  absl::StatusOr<HostBuffer> AllocateHost(size_t size) override;
  absl::Status SliceArrived(TableId table, const SliceRange& range, const float* values) override;
  absl::Status EncodedSliceArrived(SliceKey key, CodecType codec, const Payload& bytes) override;
  absl::Status LayerArrived(int layer) override;

 private:
  struct LayerEvents {
    CudaEvent values_arrived;     // on copy_in_
    CudaEvent gradient_computed;  // on compute_
    CudaEvent gradient_copied;    // on copy_out_
  };

  CudaEngine(std::unique_ptr<Model<CudaStream>> model, const Options& options);
  absl::Status Start();
  absl::Status AllocateParameters();
  absl::Status CreateEvents();
  size_t PinnedBytes() const;

  // The trace of some steps or of all; null for none.
  StepTrace* trace() const { return options_.trace != nullptr ? options_.trace : all_steps_.get(); }
  // Begin and end a part of the trace, if there is one.
  absl::Status TraceBegin(const char* track, const char* what, int layer, CudaStream& stream);
  absl::Status TraceEnd(const char* track, CudaStream& stream);
  // Gives the tracer the parts queued between the last two calls. They have run on the GPU.
  absl::Status WriteTrace();

  absl::Status WaitForLayer(int layer, ParameterStore& store);
  absl::Status QueueForward(const Batch& batch, ParameterStore& store);
  absl::Status QueueGradient(int layer, Step step, ParameterStore& store);
  // Queues the way of a table's gradient to the host.
  absl::Status QueueCopyOut(TableId table, Step step, ParameterStore& store);

  const Options options_;
  const std::unique_ptr<Model<CudaStream>> model_;
  std::shared_ptr<CudaDevice> device_;
  std::shared_ptr<PinnedPool> pool_;

  DeviceBuffer parameter_memory_;  // values and gradients
  DeviceBuffer workspace_;         // the model's, and the result
  std::vector<absl::Span<float>> values_;
  std::vector<absl::Span<const float>> const_values_;
  std::vector<absl::Span<float>> gradients_;
  std::unique_ptr<DeviceCodecs> codecs_;  // null: all tables are float32
  BatchResult* result_ = nullptr;
  BatchResult* host_result_ = nullptr;

  std::vector<LayerEvents> layer_events_;
  std::vector<CudaEvent> result_events_;  // computed, copied
  std::unique_ptr<BatchFeed> batches_;

  std::unique_ptr<CudaStream> compute_;
  std::unique_ptr<CudaStream> copy_out_;
  Mutex copy_in_mu_;
  std::unique_ptr<CudaStream> copy_in_ ABSL_PT_GUARDED_BY(copy_in_mu_);
  std::vector<absl::Time> pushed_at_ ABSL_GUARDED_BY(copy_in_mu_);  // of each layer, for the trace

  std::unique_ptr<StepTrace> all_steps_;  // null without a tracer
  LayerTrace host_trace_;

  std::unique_ptr<GradientSender> sender_;
};

// Makes an engine on GPU `device_number` with the model of `options`. The errors are those of
// MakeModel and CudaEngine::Create.
absl::StatusOr<std::unique_ptr<Engine>> MakeCudaEngine(int device_number,
                                                       const EngineOptions& options);

}  // namespace capstan

#endif  // WORKER_ENGINE_CUDA_ENGINE_H_
