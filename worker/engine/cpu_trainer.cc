#include "worker/engine/cpu_trainer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "kernels/cpu/cpu_stream.h"
#include "worker/models/training/make_model.h"

namespace capstan {
namespace {

absl::Status WaitForNothing(int /*layer*/) { return absl::OkStatus(); }

}  // namespace

absl::StatusOr<std::unique_ptr<LocalTrainer>> CpuTrainer::Create(const EngineOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Model<CpuStream>> model,
                   MakeModel<CpuStream>(options.model, options.feature_count, options.class_count));
  ASSIGN_OR_RETURN(std::unique_ptr<ModelOnCpu> on_cpu,
                   ModelOnCpu::Create(std::move(model), options.max_samples));
  const bool goes_on = options.local_steps->fragment_sync_delay() > 0;
  ASSIGN_OR_RETURN(std::unique_ptr<HostOptimizer> optimizer,
                   HostOptimizer::Create(LocalOptimizer(*options.local_steps),
                                         on_cpu->model().tables(), goes_on));
  std::unique_ptr<CpuTrainer> trainer(new CpuTrainer(std::move(on_cpu), std::move(optimizer)));
  RETURN_IF_ERROR(trainer->Allocate(goes_on));
  return trainer;
}

absl::Status CpuTrainer::Allocate(bool goes_on) {
  for (const v1::TableSpec& table : tables()) {
    const uint64_t elements = ElementCount(table);
    for (std::vector<HostBuffer>* const buffers : {&values_, &gradients_, &pushed_}) {
      if (buffers == &pushed_ && !goes_on) continue;
      ASSIGN_OR_RETURN(HostBuffer buffer, HostBuffer::Create(elements));
      buffers->push_back(std::move(buffer));
    }
    value_spans_.push_back(values_.back().span());
    gradient_spans_.push_back(gradients_.back().span());
  }
  is_pushed_.resize(tables().size());
  return absl::OkStatus();
}

absl::Status CpuTrainer::LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  batch_.Gather(dataset, samples);
  return absl::OkStatus();
}

absl::StatusOr<BatchResult> CpuTrainer::Step() {
  const Batch batch = batch_.batch();
  ASSIGN_OR_RETURN(const BatchResult result, model_->Forward(batch, value_spans_, WaitForNothing));
  const auto change = [this](int layer) {
    for (const int table : model_->model().layers()[layer].tables) {
      optimizer_->Step(TableId(static_cast<uint32_t>(table)), gradient_spans_[table],
                       values_[table].span());
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(model_->Backward(batch, value_spans_, gradient_spans_, change));
  return result;
}

absl::StatusOr<BatchResult> CpuTrainer::Forward(Values values) {
  return model_->Forward(batch_.batch(), values, WaitForNothing);
}

absl::Status CpuTrainer::Push(TableId table, absl::Span<const float> values,
                              absl::Span<float> difference) {
  const absl::Span<const float> local = value_spans_[table.value()];
  for (size_t i = 0; i < local.size(); ++i) difference[i] = values[i] - local[i];
  optimizer_->NotePush(table);
  if (pushed_.empty()) return absl::OkStatus();
  std::copy(local.begin(), local.end(), pushed_[table.value()].data());
  is_pushed_[table.value()] = true;
  return absl::OkStatus();
}

absl::Status CpuTrainer::Take(TableId table, absl::Span<const float> values) {
  const absl::Span<float> local = values_[table.value()].span();
  if (!is_pushed_[table.value()]) {
    std::copy(values.begin(), values.end(), local.begin());
    return absl::OkStatus();
  }
  is_pushed_[table.value()] = false;
  const float* const pushed = pushed_[table.value()].data();
  for (size_t i = 0; i < local.size(); ++i) local[i] = values[i] + (local[i] - pushed[i]);
  return absl::OkStatus();
}

}  // namespace capstan
