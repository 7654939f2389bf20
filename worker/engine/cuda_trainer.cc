#include "worker/engine/cuda_trainer.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/job/optimizer_check.h"
#include "common/optimizer/rules.h"
#include "common/routing/job_view.h"
#include "common/tensor/memory_cutter.h"
#include "worker/models/training/make_model.h"

namespace capstan {
namespace {

absl::Status WaitForNothing(int /*layer*/) { return absl::OkStatus(); }

size_t BytesOf(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

// Owns a HostBuffer's memory: the pool, and the device, destroyed after the pool.
struct PoolOwner {
  std::shared_ptr<CudaDevice> device;
  std::shared_ptr<PinnedPool> pool;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LocalTrainer>> CudaTrainer::Create(int device_number,
                                                                  const EngineOptions& options) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Model<CudaStream>> model,
      MakeModel<CudaStream>(options.model, options.feature_count, options.class_count));
  std::unique_ptr<CudaTrainer> trainer(new CudaTrainer(std::move(model), options));
  RETURN_IF_ERROR(trainer->Start(device_number));
  return trainer;
}

CudaTrainer::CudaTrainer(std::unique_ptr<Model<CudaStream>> model, const EngineOptions& options)
    : options_(options),
      optimizer_(LocalOptimizer(*options.local_steps)),
      model_(std::move(model)) {}

CudaTrainer::~CudaTrainer() {
  // Waits for the stream's work, which uses memory freed next.
  stream_.reset();
}

absl::Status CudaTrainer::Start(int device_number) {
  RETURN_IF_ERROR(CheckDenseOptimizer(optimizer_));
  for (const v1::TableSpec& table : tables()) {
    tables_.emplace_back().elements = static_cast<int64_t>(ElementCount(table));
  }
  ASSIGN_OR_RETURN(device_, CudaDevice::Open(device_number));
  ASSIGN_OR_RETURN(stream_, CudaStream::Create(*device_, CudaStream::Blas::kWithWorkspace));
  ASSIGN_OR_RETURN(pool_, PinnedPool::Create(*device_, PinnedBytes()));
  RETURN_IF_ERROR(AllocateState());
  RETURN_IF_ERROR(AllocateParameters());
  BatchFeed::Options feed;
  feed.device = device_.get();
  feed.pool = pool_.get();
  feed.feature_count = options_.feature_count;
  feed.max_samples = options_.max_samples;
  ASSIGN_OR_RETURN(batches_, BatchFeed::Create(feed));
  return absl::OkStatus();
}

size_t CudaTrainer::PinnedBytes() const {
  const size_t arrays =
      std::visit([](const auto& rule) { return static_cast<size_t>(rule.kStateCount); },
                 RuleOf(optimizer_, Application()));
  size_t largest = 0;
  size_t bytes = PinnedPool::RoundUp(sizeof(BatchResult)) +
                 BatchFeed::PinnedBytes(options_.feature_count, options_.max_samples);
  for (const Table& table : tables_) {
    bytes += arrays * PinnedPool::RoundUp(BytesOf(table.elements));
    largest = std::max(largest, BytesOf(table.elements));
  }
  return bytes + PinnedPool::RoundUp(largest);
}

absl::Status CudaTrainer::AllocateState() {
  const auto allocate = [this](size_t size) -> absl::StatusOr<HostBuffer> {
    ASSIGN_OR_RETURN(void* const memory, pool_->Take(size * sizeof(float)));
    return HostBuffer(static_cast<float*>(memory), size,
                      std::make_shared<PoolOwner>(PoolOwner{device_, pool_}));
  };
  ASSIGN_OR_RETURN(state_, LocalOptimizerState::Create(optimizer_, tables(), allocate));
  ASSIGN_OR_RETURN(void* const host_result, pool_->Take(sizeof(BatchResult)));
  host_result_ = static_cast<BatchResult*>(host_result);
  const auto largest =
      std::max_element(tables_.begin(), tables_.end(),
                       [](const Table& a, const Table& b) { return a.elements < b.elements; });
  ASSIGN_OR_RETURN(void* const copy, pool_->Take(BytesOf(largest->elements)));
  copy_ = static_cast<float*>(copy);
  return absl::OkStatus();
}

absl::Status CudaTrainer::AllocateParameters() {
  const auto copies = static_cast<size_t>(2 + state_->state_count());
  size_t bytes = 0;
  for (const Table& table : tables_) {
    bytes += copies * MemoryCutter::RoundUp(BytesOf(table.elements));
  }
  ASSIGN_OR_RETURN(
      parameter_memory_,
      DeviceBuffer::Allocate(*device_, bytes, "parameters, gradients and the optimizer's state"));
  MemoryCutter cutter(parameter_memory_.data<void>());
  for (Table& table : tables_) {
    table.values = cutter.Take<float>(table.elements);
    table.gradient = cutter.Take<float>(table.elements);
    for (int i = 0; i < state_->state_count(); ++i) {
      table.optimizer_arrays.push_back(cutter.Take<float>(table.elements));
    }
    const auto size = static_cast<size_t>(table.elements);
    if (options_.local_steps->fragment_sync_delay() > 0) table.pushed.resize(size);
    values_.emplace_back(table.values, size);
    gradients_.emplace_back(table.gradient, size);
  }
  const size_t model_bytes = model_->WorkspaceBytes(options_.max_samples, *stream_);
  ASSIGN_OR_RETURN(
      workspace_,
      DeviceBuffer::Allocate(*device_, MemoryCutter::RoundUp(sizeof(BatchResult)) + model_bytes,
                             absl::StrCat("activations of ", options_.max_samples, " samples")));
  MemoryCutter workspace(workspace_.data<void>());
  result_ = workspace.Take<BatchResult>(1);
  model_->UseWorkspace(workspace.Take<char>(static_cast<int64_t>(model_bytes)),
                       options_.max_samples, *stream_);
  return absl::OkStatus();
}

absl::Status CudaTrainer::LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  RETURN_IF_ERROR(batches_->Gather(dataset, samples));
  return batches_->Copy(*stream_);
}

absl::StatusOr<BatchResult> CudaTrainer::Step() {
  ASSIGN_OR_RETURN(const Batch batch, batches_->Use(*stream_));
  RETURN_IF_ERROR(model_->Forward(batch, values_, WaitForNothing, result_, *stream_));
  const auto change = [this](int layer) {
    for (const int table : model_->layers()[layer].tables) RETURN_IF_ERROR(QueueStep(table));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(model_->Backward(batch, values_, gradients_, change, *stream_));
  RETURN_IF_ERROR(batches_->Release(*stream_));
  return AwaitResult();
}

absl::Status CudaTrainer::QueueStep(int number) {
  Table& table = tables_[number];
  if (!table.has_begun) RETURN_IF_ERROR(BeginSteps(TableId(static_cast<uint32_t>(number))));
  Application application;
  application.number = ++table.steps;
  const auto apply = [&](const auto& rule) {
    constexpr int kStateCount = std::decay_t<decltype(rule)>::kStateCount;
    float* arrays[1 + kStateCount] = {table.values};
    for (int i = 0; i < kStateCount; ++i) arrays[1 + i] = table.optimizer_arrays[i];
    return ApplyRule(rule, table.elements, table.gradient, arrays, *stream_);
  };
  return std::visit(apply, RuleOf(optimizer_, application));
}

absl::Status CudaTrainer::BeginSteps(TableId id) {
  Table& table = tables_[id.value()];
  LocalOptimizerState::Table& kept = state_->table(id);
  table.has_begun = true;
  table.steps = kept.steps;
  for (size_t i = 0; i < table.optimizer_arrays.size(); ++i) {
    RETURN_IF_ERROR(stream_->CopyToDevice(kept.arrays[i]->data(), BytesOf(table.elements),
                                          table.optimizer_arrays[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<BatchResult> CudaTrainer::Forward(Values values) {
  // No step needs the gradients of the step before.
  for (size_t i = 0; i < tables_.size(); ++i)
    RETURN_IF_ERROR(CopyIn(values[i], gradients_[i].data()));
  const std::vector<absl::Span<const float>> parameters(gradients_.begin(), gradients_.end());
  ASSIGN_OR_RETURN(const Batch batch, batches_->Use(*stream_));
  RETURN_IF_ERROR(model_->Forward(batch, parameters, WaitForNothing, result_, *stream_));
  RETURN_IF_ERROR(batches_->Release(*stream_));
  return AwaitResult();
}

absl::StatusOr<BatchResult> CudaTrainer::AwaitResult() {
  RETURN_IF_ERROR(stream_->CopyToHost(result_, sizeof(BatchResult), host_result_));
  RETURN_IF_ERROR(stream_->Synchronize());
  return *host_result_;
}

absl::Status CudaTrainer::CopyOut(const Table& table) {
  RETURN_IF_ERROR(stream_->CopyToHost(table.values, BytesOf(table.elements), copy_));
  return stream_->Synchronize();
}

absl::Status CudaTrainer::CopyIn(absl::Span<const float> values, float* to) {
  if (values.data() != copy_) std::copy(values.begin(), values.end(), copy_);
  RETURN_IF_ERROR(stream_->CopyToDevice(copy_, values.size() * sizeof(float), to));
  return stream_->Synchronize();
}

absl::Status CudaTrainer::Push(TableId id, absl::Span<const float> values,
                               absl::Span<float> difference) {
  Table& table = tables_[id.value()];
  LocalOptimizerState::Table& kept = state_->table(id);
  for (size_t i = 0; table.has_begun && i < table.optimizer_arrays.size(); ++i) {
    RETURN_IF_ERROR(stream_->CopyToHost(table.optimizer_arrays[i], BytesOf(table.elements),
                                        kept.arrays[i]->data()));
  }
  if (table.has_begun) kept.steps = table.steps;
  RETURN_IF_ERROR(CopyOut(table));
  for (size_t i = 0; i < values.size(); ++i) difference[i] = values[i] - copy_[i];
  if (table.pushed.empty()) return absl::OkStatus();
  std::copy(copy_, copy_ + table.elements, table.pushed.begin());
  table.is_pushed = true;
  return absl::OkStatus();
}

absl::Status CudaTrainer::Take(TableId id, absl::Span<const float> values) {
  Table& table = tables_[id.value()];
  if (!std::exchange(table.is_pushed, false)) return CopyIn(values, table.values);
  RETURN_IF_ERROR(CopyOut(table));
  for (size_t i = 0; i < values.size(); ++i) copy_[i] = values[i] + (copy_[i] - table.pushed[i]);
  return CopyIn({copy_, values.size()}, table.values);
}

}  // namespace capstan
