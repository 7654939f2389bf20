#include "worker/engine/cuda_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/routing/job_view.h"
#include "common/tensor/memory_cutter.h"
#include "worker/models/training/make_model.h"

namespace capstan {
namespace {

// Owns a HostBuffer's memory: the pool, and the device, destroyed after the pool.
struct PoolOwner {
  std::shared_ptr<CudaDevice> device;
  std::shared_ptr<PinnedPool> pool;
};

std::vector<std::string> LayerNames(const Model<CudaStream>& model) {
  std::vector<std::string> names;
  for (const auto& layer : model.layers()) names.push_back(layer.name);
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaEngine>> CudaEngine::Create(
    std::unique_ptr<Model<CudaStream>> model, const Options& options) {
  std::unique_ptr<CudaEngine> engine(new CudaEngine(std::move(model), options));
  RETURN_IF_ERROR(engine->Start());
  return engine;
}

CudaEngine::CudaEngine(std::unique_ptr<Model<CudaStream>> model, const Options& options)
    : options_(options),
      model_(std::move(model)),
      host_trace_(options.tracer, LayerNames(*model_)) {}

CudaEngine::~CudaEngine() {
  sender_.reset();
  // Each destructor waits for the stream's work. This work uses memory freed next.
  compute_.reset();
  copy_out_.reset();
  copy_in_.reset();
}

absl::Status CudaEngine::Start() {
  ASSIGN_OR_RETURN(device_, CudaDevice::Open(options_.device_number));
  ASSIGN_OR_RETURN(compute_, CudaStream::Create(*device_, CudaStream::Blas::kWithWorkspace));
  ASSIGN_OR_RETURN(copy_in_, CudaStream::Create(*device_, CudaStream::Blas::kNone));
  ASSIGN_OR_RETURN(copy_out_, CudaStream::Create(*device_, CudaStream::Blas::kNone));
  RETURN_IF_ERROR(AllocateParameters());
  ASSIGN_OR_RETURN(pool_, PinnedPool::Create(*device_, PinnedBytes()));
  ASSIGN_OR_RETURN(void* const host_result, pool_->Take(sizeof(BatchResult)));
  host_result_ = static_cast<BatchResult*>(host_result);
  BatchFeed::Options feed;
  feed.device = device_.get();
  feed.pool = pool_.get();
  feed.feature_count = options_.feature_count;
  feed.max_samples = options_.max_samples;
  ASSIGN_OR_RETURN(batches_, BatchFeed::Create(feed));
  RETURN_IF_ERROR(CreateEvents());
  {
    MutexLock lock(&copy_in_mu_);
    pushed_at_.resize(layer_events_.size());
  }
  sender_ = std::make_unique<GradientSender>(options_.clock, [this](int layer) {
    MutexLock lock(&copy_in_mu_);
    pushed_at_[layer] = options_.clock->Now();
  });
  if (options_.tracer == nullptr) return absl::OkStatus();
  all_steps_ = std::make_unique<StepTrace>(options_.clock);
  return all_steps_->Start(*device_, *compute_);
}

size_t CudaEngine::PinnedBytes() const {
  size_t bytes = PinnedPool::RoundUp(sizeof(BatchResult)) +
                 BatchFeed::PinnedBytes(options_.feature_count, options_.max_samples);
  for (const v1::TableSpec& table : tables()) {
    bytes += 2 * PinnedPool::RoundUp(ElementCount(table) * sizeof(float));
  }
  return bytes;
}

absl::Status CudaEngine::AllocateParameters() {
  size_t bytes = 0;
  for (const v1::TableSpec& table : tables()) {
    bytes += 2 * MemoryCutter::RoundUp(ElementCount(table) * sizeof(float));
  }
  ASSIGN_OR_RETURN(parameter_memory_,
                   DeviceBuffer::Allocate(*device_, bytes, "parameters and their gradients"));
  MemoryCutter cutter(parameter_memory_.data<void>());
  for (const v1::TableSpec& table : tables()) {
    const int64_t elements = static_cast<int64_t>(ElementCount(table));
    values_.emplace_back(cutter.Take<float>(elements), elements);
    gradients_.emplace_back(cutter.Take<float>(elements), elements);
  }
  const_values_.assign(values_.begin(), values_.end());

  const size_t model_bytes = model_->WorkspaceBytes(options_.max_samples, *compute_);
  ASSIGN_OR_RETURN(
      workspace_,
      DeviceBuffer::Allocate(*device_, MemoryCutter::RoundUp(sizeof(BatchResult)) + model_bytes,
                             absl::StrCat("activations of ", options_.max_samples, " samples")));
  MemoryCutter workspace(workspace_.data<void>());
  result_ = workspace.Take<BatchResult>(1);
  model_->UseWorkspace(workspace.Take<char>(static_cast<int64_t>(model_bytes)),
                       options_.max_samples, *compute_);
  return absl::OkStatus();
}

absl::Status CudaEngine::CreateEvents() {
  const auto create = [this] { return CudaEvent::Create(*device_, CudaEvent::Timing::kOff); };
  for (size_t layer = 0; layer < model_->layers().size(); ++layer) {
    ASSIGN_OR_RETURN(CudaEvent values_arrived, create());
    ASSIGN_OR_RETURN(CudaEvent gradient_computed, create());
    ASSIGN_OR_RETURN(CudaEvent gradient_copied, create());
    layer_events_.push_back(
        {std::move(values_arrived), std::move(gradient_computed), std::move(gradient_copied)});
  }
  ASSIGN_OR_RETURN(CudaEvent computed, create());
  ASSIGN_OR_RETURN(CudaEvent copied, create());
  result_events_.push_back(std::move(computed));
  result_events_.push_back(std::move(copied));
  return absl::OkStatus();
}

absl::Status CudaEngine::LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  RETURN_IF_ERROR(batches_->Gather(dataset, samples));
  MutexLock lock(&copy_in_mu_);
  return batches_->Copy(*copy_in_);
}

absl::Status CudaEngine::RunStep(Step step, ParameterStore& store) {
  ASSIGN_OR_RETURN(const Batch batch, batches_->Use(*compute_));
  RETURN_IF_ERROR(QueueForward(batch, store));
  const int last = static_cast<int>(model_->layers().size()) - 1;
  RETURN_IF_ERROR(TraceBegin("compute", "backward", last, *compute_));
  RETURN_IF_ERROR(model_->Backward(
      batch, const_values_, gradients_,
      [&](int layer) { return QueueGradient(layer, step, store); }, *compute_));
  return batches_->Release(*compute_);
}

absl::Status CudaEngine::RunForward(ParameterStore& store) {
  ASSIGN_OR_RETURN(const Batch batch, batches_->Use(*compute_));
  RETURN_IF_ERROR(QueueForward(batch, store));
  return batches_->Release(*compute_);
}

absl::Status CudaEngine::WaitForLayer(int layer, ParameterStore& store) {
  RETURN_IF_ERROR(TraceEnd("compute", *compute_));
  const absl::Time begin = options_.clock->Now();
  host_trace_.Begin("wait", layer);
  const absl::Status arrived = store.WaitForLayer(layer);
  host_trace_.End();
  RETURN_IF_ERROR(arrived);
  if (options_.trace != nullptr) {
    options_.trace->AddHost("host", absl::StrCat("wait ", model_->layers()[layer].name), begin);
  }
  RETURN_IF_ERROR(compute_->WaitFor(layer_events_[layer].values_arrived));
  return TraceBegin("compute", "forward", layer, *compute_);
}

absl::Status CudaEngine::QueueForward(const Batch& batch, ParameterStore& store) {
  RETURN_IF_ERROR(model_->Forward(
      batch, const_values_, [&](int layer) { return WaitForLayer(layer, store); }, result_,
      *compute_));
  RETURN_IF_ERROR(TraceEnd("compute", *compute_));
  CudaEvent& computed = result_events_[0];
  RETURN_IF_ERROR(computed.Record(*compute_));
  RETURN_IF_ERROR(copy_out_->WaitFor(computed));
  RETURN_IF_ERROR(copy_out_->CopyToHost(result_, sizeof(BatchResult), host_result_));
  return result_events_[1].Record(*copy_out_);
}

absl::Status CudaEngine::QueueGradient(int layer, Step step, ParameterStore& store) {
  LayerEvents& events = layer_events_[layer];
  RETURN_IF_ERROR(events.gradient_computed.Record(*compute_));
  RETURN_IF_ERROR(TraceEnd("compute", *compute_));
  if (layer > 0) RETURN_IF_ERROR(TraceBegin("compute", "backward", layer - 1, *compute_));
  RETURN_IF_ERROR(copy_out_->WaitFor(events.gradient_computed));
  RETURN_IF_ERROR(TraceBegin("copy out", "gradient", layer, *copy_out_));
  for (const int table : model_->layers()[layer].tables) {
    RETURN_IF_ERROR(QueueCopyOut(TableId(static_cast<uint32_t>(table)), step, store));
  }
  RETURN_IF_ERROR(TraceEnd("copy out", *copy_out_));
  RETURN_IF_ERROR(events.gradient_copied.Record(*copy_out_));
  store.Open(layer);
  sender_->Send(events.gradient_copied, layer, step, store);
  return absl::OkStatus();
}

absl::Status CudaEngine::QueueCopyOut(TableId table, Step step, ParameterStore& store) {
  const absl::Span<const float> gradient = gradients_[table.value()];
  if (codecs_ != nullptr && codecs_->encodes(table) && store.Encodes(table, step)) {
    return codecs_->QueueEncode(table, step, gradient, *copy_out_);
  }
  return copy_out_->CopyToHost(gradient.data(), gradient.size() * sizeof(float),
                               store.gradients()[table.value()].data());
}

absl::StatusOr<BatchResult> CudaEngine::Result() {
  RETURN_IF_ERROR(result_events_[1].Wait());
  RETURN_IF_ERROR(WriteTrace());
  return *host_result_;
}

absl::Status CudaEngine::Finish() {
  sender_->Cancel();
  RETURN_IF_ERROR(compute_->Synchronize());
  RETURN_IF_ERROR(copy_out_->Synchronize());
  // Each call writes one interval between calls: the last one, and the current one.
  RETURN_IF_ERROR(WriteTrace());
  RETURN_IF_ERROR(WriteTrace());
  MutexLock lock(&copy_in_mu_);
  return copy_in_->Synchronize();
}

absl::Status CudaEngine::StartTrace() { return options_.trace->Start(*device_, *compute_); }

absl::Status CudaEngine::TraceBegin(const char* track, const char* what, int layer,
                                    CudaStream& stream) {
  if (trace() == nullptr) return absl::OkStatus();
  return trace()->Begin(track, absl::StrCat(what, " ", model_->layers()[layer].name), stream);
}

absl::Status CudaEngine::TraceEnd(const char* track, CudaStream& stream) {
  return trace() == nullptr ? absl::OkStatus() : trace()->End(track, stream);
}

absl::Status CudaEngine::WriteTrace() {
  if (all_steps_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<StepTrace::Span> spans, all_steps_->Take());
  const absl::Time origin = all_steps_->origin();
  for (const StepTrace::Span& span : spans) {
    options_.tracer->AddSpan(options_.tracer->Track(absl::StrCat("GPU ", span.track)), span.name,
                             origin + span.begin, origin + span.end, {});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<GradientEncoder>> CudaEngine::UseCodecs(const CodecPlan& plan) {
  ASSIGN_OR_RETURN(codecs_, DeviceCodecs::Create(device_, plan));
  return DeviceEncoder::Create(plan, codecs_.get());
}

absl::StatusOr<HostBuffer> CudaEngine::AllocateHost(size_t size) {
  ASSIGN_OR_RETURN(void* const memory, pool_->Take(size * sizeof(float)));
  return HostBuffer(static_cast<float*>(memory), size,
                    std::make_shared<PoolOwner>(PoolOwner{device_, pool_}));
}

absl::Status CudaEngine::SliceArrived(TableId table, const SliceRange& range, const float* values) {
  MutexLock lock(&copy_in_mu_);
  return copy_in_->CopyToDevice(values, range.size * sizeof(float),
                                values_[table.value()].data() + range.offset);
}

absl::Status CudaEngine::EncodedSliceArrived(SliceKey key, CodecType codec, const Payload& bytes) {
  const absl::Span<const uint8_t> pinned = codecs_->PinValues(key, bytes);
  MutexLock lock(&copy_in_mu_);
  return codecs_->QueueDecode(key, codec, pinned, values_[key.table.value()], *copy_in_);
}

absl::Status CudaEngine::LayerArrived(int layer) {
  MutexLock lock(&copy_in_mu_);
  if (options_.trace != nullptr) {
    options_.trace->AddHost("exchange", absl::StrCat("push+pull ", model_->layers()[layer].name),
                            pushed_at_[layer]);
  }
  return layer_events_[layer].values_arrived.Record(*copy_in_);
}

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
