#include "tests/simulation/known_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/random.h"

namespace capstan {
namespace {

constexpr uint64_t kKeys = 24;
constexpr size_t kKeysOfStep = 8;

uint64_t StreamOf(WorkerId worker, Step step) {
  return 3'000'000 + (uint64_t{worker.value()} << 32) + static_cast<uint64_t>(step.value());
}

}  // namespace

std::vector<uint64_t> AllRowKeys() {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(i * i * 1'000'003);
  return keys;
}

std::vector<uint64_t> RowKeysOf(const Scenario& scenario, WorkerId worker, Step step) {
  Random random(scenario.job.seed(), StreamOf(worker, step));
  std::vector<uint64_t> keys = AllRowKeys();
  for (size_t i = 0; i < kKeysOfStep; ++i) {
    std::swap(keys[i], keys[i + random.UniformInt(keys.size() - i)]);
  }
  keys.resize(kKeysOfStep);
  return keys;
}

std::vector<float> RowGradientsOf(const Scenario& scenario, WorkerId worker, Step step,
                                  absl::Span<const uint64_t> keys) {
  const size_t dim = scenario.tables.back().sparse().dim();
  std::vector<float> gradients;
  for (const uint64_t key : keys) {
    Random random(scenario.job.seed() + key, StreamOf(worker, step));
    for (size_t i = 0; i < dim; ++i) gradients.push_back(random.Normal());
  }
  return gradients;
}

std::vector<float> KnownRows(const Scenario& scenario, Step end, absl::Span<const uint64_t> keys) {
  const TableId table(static_cast<uint32_t>(scenario.tables.size() - 1));
  const v1::TableSpec& spec = scenario.tables.back();
  const size_t dim = spec.sparse().dim();
  const uint32_t workers = scenario.job.cluster().num_workers();
  std::map<uint64_t, std::vector<float>> rows;
  for (Step step; step < std::min(end, Step(scenario.steps)); step = step + 1) {
    std::map<uint64_t, std::vector<float>> sums;
    for (uint32_t worker = 0; worker < workers; ++worker) {
      if (!HasGradient(scenario, WorkerId(worker), step, table)) continue;
      const std::vector<uint64_t> pushed = RowKeysOf(scenario, WorkerId(worker), step);
      const std::vector<float> gradients = RowGradientsOf(scenario, WorkerId(worker), step, pushed);
      for (size_t i = 0; i < gradients.size(); ++i) {
        std::vector<float>& sum = sums[pushed[i / dim]];
        sum.resize(dim);
        sum[i % dim] += gradients[i];
      }
    }
    const double own = spec.optimizer().learning_rate();
    const auto rate =
        static_cast<float>(scenario.program->LearningRate(WorkerId(0), step, table).value_or(own));
    for (const auto& [key, sum] : sums) {
      std::vector<float>& row = rows[key];
      row.resize(dim);
      for (size_t i = 0; i < dim; ++i) row[i] -= rate * (sum[i] / static_cast<float>(workers));
    }
  }
  std::vector<float> values;
  for (const uint64_t key : keys) {
    std::vector<float>& row = rows[key];
    row.resize(dim);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

}  // namespace capstan
