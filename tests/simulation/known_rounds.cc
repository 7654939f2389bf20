#include "tests/simulation/known_rounds.h"

#include <algorithm>
#include <utility>

#include "common/job/job_properties.h"
#include "common/routing/job_view.h"

namespace capstan {
namespace {

Slicing SlicingOf(const Scenario& scenario, TableId table) {
  return Slicing(ElementCount(scenario.tables[table.value()]),
                 SliceBytes(scenario.job.scheduler()));
}

// Applies the mean of a round.
void Apply(const v1::OptimizerSpec& optimizer, const std::vector<float>& mean,
           std::vector<float>& velocity, std::vector<float>& values) {
  const auto rate = static_cast<float>(optimizer.learning_rate());
  const bool is_nesterov = optimizer.type() == v1::OptimizerSpec::NESTEROV;
  const bool has_momentum = is_nesterov || optimizer.type() == v1::OptimizerSpec::MOMENTUM;
  const float momentum = has_momentum ? static_cast<float>(optimizer.momentum()) : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    velocity[i] = momentum * velocity[i] + mean[i];
    values[i] -= rate * (is_nesterov ? mean[i] + momentum * velocity[i] : velocity[i]);
  }
}

std::vector<float> EndOf(const Scenario& scenario, SliceKey slice) {
  const v1::TableSpec& table = scenario.tables[slice.table.value()];
  const size_t size = SlicingOf(scenario, slice.table).Range(slice.slice).size;
  std::vector<std::vector<float>> values;  // before each round
  values.reserve(static_cast<size_t>(scenario.steps) + 1);
  values.emplace_back(size);
  for (size_t i = 0; i < size && table.initial_from_worker(); ++i) {
    values[0][i] = scenario.program->InitialValue(slice, i);
  }
  const auto values_of = [&values](Step step) { return &values.at(step.value()); };
  const uint32_t workers = scenario.job.cluster().num_workers();
  std::vector<KnownSlice> of_worker;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    of_worker.emplace_back(scenario, WorkerId(worker), slice, Step(0), values_of);
  }
  std::vector<float> velocity(size);
  for (Step round; round < Step(scenario.steps); round = round + 1) {
    std::vector<float> mean(size);
    for (KnownSlice& one : of_worker) {
      const std::vector<float> push = one.Push(round).value();
      for (size_t i = 0; i < size; ++i) mean[i] += push[i];
    }
    for (float& element : mean) element /= static_cast<float>(workers);
    std::vector<float> next = values.back();
    Apply(table.has_optimizer() ? table.optimizer() : scenario.job.optimizer(), mean, velocity,
          next);
    values.push_back(std::move(next));
  }
  return values.back();
}

}  // namespace

KnownSlice::KnownSlice(const Scenario& scenario, WorkerId worker, SliceKey slice, Step first,
                       ValuesOf values_of)
    : scenario_(&scenario),
      worker_(worker),
      slice_(slice),
      values_of_(std::move(values_of)),
      begin_(SlicingOf(scenario, slice.table).Range(slice.slice).offset),
      open_(first),
      round_(first) {}

KnownSlice::KnownSlice(const KnownSlice& before, Step first, ValuesOf values_of)
    : KnownSlice(before) {
  values_of_ = std::move(values_of);
  round_ = first;
  number_ = 0;
  if (open_.has_value()) open_ = first;
}

bool KnownSlice::Take() {
  const std::vector<float>* const values = values_of_(*open_);
  if (values == nullptr) return false;
  if (elements_.empty()) {
    for (const float value : *values) elements_.push_back({value, 0});
  }
  const bool keeps = scenario_->program->local_steps->fragment_sync_delay() > 0;
  for (size_t i = 0; i < values->size(); ++i) {
    const float meanwhile = keeps && !pushed_.empty() ? elements_[i].value - pushed_[i] : 0;
    elements_[i].value = (*values)[i] + meanwhile;
  }
  open_.reset();
  return true;
}

bool KnownSlice::Advance(Step round, int64_t number) {
  if (elements_.empty() && !Take()) return false;
  while (round_ < round || number_ < number) {
    if (number_ == scenario_->program->LocalStepsOf(worker_, round_)) {
      round_ = round_ + 1;
      number_ = 0;
      continue;
    }
    if (open_.has_value() && due_ == 0 && !Take()) return false;
    ++number_;
    for (size_t i = 0; i < elements_.size(); ++i) {
      UserProgram::StepLocally(worker_, round_, number_, slice_.table, begin_ + i, elements_[i]);
    }
    if (open_.has_value()) --due_;
  }
  return true;
}

bool KnownSlice::BeginRound(Step round) {
  for (Step next = round_; next < round; next = next + 1) {
    if (!Push(next).has_value()) return false;
  }
  return Advance(round, /*number=*/0);
}

int64_t KnownSlice::MomentOf(Step round) const {
  const UserProgram& program = *scenario_->program;
  const int64_t fragments = program.local_steps->fragments();
  const int64_t after = (program.FragmentOf(slice_.table.value(), scenario_->tables.size()) + 1) *
                        program.LocalStepsOf(worker_, round);
  return (after + fragments - 1) / fragments;
}

std::optional<std::vector<float>> KnownSlice::Push(Step round) {
  if (!Advance(round, MomentOf(round))) return std::nullopt;
  if (open_.has_value() && !Take()) return std::nullopt;
  const std::vector<float>* const base = values_of_(round);
  if (base == nullptr) return std::nullopt;
  std::vector<float> gradient(base->size());
  pushed_.resize(base->size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    pushed_[i] = elements_[i].value;
    gradient[i] = (*base)[i] - pushed_[i];
  }
  open_ = round + 1;
  due_ = scenario_->program->local_steps->fragment_sync_delay();
  return gradient;
}

std::vector<std::vector<float>> KnownRoundsEnd(const Scenario& scenario) {
  std::vector<std::vector<float>> tables;
  for (uint32_t table = 0; table < scenario.tables.size(); ++table) {
    std::vector<float>& values = tables.emplace_back();
    const Slicing slicing = SlicingOf(scenario, TableId(table));
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      const std::vector<float> end = EndOf(scenario, {TableId(table), SliceIndex(slice)});
      values.insert(values.end(), end.begin(), end.end());
    }
  }
  return tables;
}

}  // namespace capstan
