#include "tests/simulation/scripted_training.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/one_shot.h"
#include "common/base/status_macros.h"
#include "common/history/test_values.h"
#include "common/routing/element_count.h"
#include "common/routing/placement.h"
#include "common/tensor/slicing.h"
#include "common/transport/payload.h"
#include "tests/simulation/sleep_on.h"

namespace capstan {

ScriptedTraining::ScriptedTraining(Options options)
    : clock_(options.clock),
      script_(*options.script),
      worker_(options.worker),
      slice_bytes_(options.job->job().scheduler().slice_bytes()),
      scheduler_(options.job->job().scheduler().credit_bytes()) {
  for (const v1::TableSpec& table : script_.tables) {
    layer_count_ = std::max(layer_count_, static_cast<int>(table.layer()) + 1);
  }
  ParameterClient::Options client;
  client.job = options.job->job_fingerprint();
  client.worker = options.worker;
  client.incarnation = options.incarnation;
  client.clock = clock_;
  client_ = std::make_unique<ParameterClient>(client,
                                              ShardMap(ElementCounts(*options.view), slice_bytes_,
                                                       options.job->job().cluster().shard_count()),
                                              RoutingTableFromView(*options.view),
                                              std::move(options.connect));

  ParameterStore::Options store;
  store.clock = clock_;
  store.client = client_.get();
  store.scheduler = &scheduler_;
  store.tables = script_.tables;
  store.slice_bytes = slice_bytes_;
  store.is_eager = options.job->job().consistency().eager();
  store_ = ParameterStore::Create(store).value();
}

absl::Status ScriptedTraining::Run(Step first_step) {
  steps_done_ = first_step.value();
  store_->PullAll(first_step);
  for (Step step = first_step; step < Step(script_.steps); step = step + 1) {
    RETURN_IF_ERROR(RunStep(step));
  }
  RETURN_IF_ERROR(store_->WaitForAll());
  steps_done_ = script_.steps;
  return absl::OkStatus();
}

absl::Status ScriptedTraining::RunStep(Step step) {
  const absl::Duration compute_time = script_.compute_time(step);
  const absl::Duration forward_time = compute_time / 3;
  for (int layer = 0; layer < layer_count_; ++layer) {
    RETURN_IF_ERROR(store_->WaitForLayer(layer));
    SleepOn(*clock_, forward_time / layer_count_);
  }
  steps_done_ = step.value();
  for (int layer = layer_count_ - 1; layer >= 0; --layer) {
    SleepOn(*clock_, (compute_time - forward_time) / layer_count_);
    WriteGradients(layer, step);
    if (script_.pushes_ahead && step.value() % 2 == 0 && step + 1 < Step(script_.steps)) {
      RETURN_IF_ERROR(PushOnly(layer, step));
    } else {
      store_->PushPull(layer, step);
    }
  }
  return absl::OkStatus();
}

absl::Status ScriptedTraining::PushOnly(int layer, Step step) {
  for (uint32_t table = 0; table < script_.tables.size(); ++table) {
    if (static_cast<int>(script_.tables[table].layer()) != layer) continue;
    const absl::Span<const float> gradient = store_->gradients()[table];
    const Slicing slicing(gradient.size(), slice_bytes_);
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      const SliceRange range = slicing.Range(SliceIndex(slice));
      OneShot<absl::Status> acknowledged(clock_);
      client_->Exchange(
          {TableId(table), SliceIndex(slice)}, step,
          Payload(gradient.subspan(range.offset, range.size), nullptr), std::nullopt,
          /*destination=*/{}, [] {}, [&](ExchangeReply reply) { acknowledged.Set(reply.status); });
      RETURN_IF_ERROR(acknowledged.Wait());
    }
  }
  return absl::OkStatus();
}

void ScriptedTraining::WriteGradients(int layer, Step step) {
  if (!script_.has_test_values) return;
  const size_t element = TestElement(worker_, step, script_.steps);
  for (size_t table = 0; table < script_.tables.size(); ++table) {
    if (static_cast<int>(script_.tables[table].layer()) != layer) continue;
    const absl::Span<float> gradient = store_->gradients()[table];
    const Slicing slicing(gradient.size(), slice_bytes_);
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      float* const values = gradient.data() + slicing.Range(SliceIndex(slice)).offset;
      if (step > Step(0)) values[element - 1] = 0;
      values[element] = -kTestUpdate;  // SGD subtracts it.
    }
  }
}

absl::Status ScriptedTraining::PullFinal() {
  store_->PullAll(Step(script_.steps));
  return store_->WaitForAll();
}

v1::Progress ScriptedTraining::progress() const {
  const ParameterStore::Traffic traffic = store_->traffic();
  v1::Progress progress;
  progress.set_steps_total(script_.steps);
  progress.set_steps_done(steps_done_);
  progress.set_bytes_pushed(traffic.bytes_pushed);
  progress.set_bytes_pulled(traffic.bytes_pulled);
  progress.set_max_staleness_seen(traffic.max_staleness_seen);
  progress.set_mean_staleness_seen(traffic.mean_staleness_seen);
  progress.set_steps_ahead(traffic.steps_ahead);
  return progress;
}

}  // namespace capstan
