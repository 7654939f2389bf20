#include "tests/simulation/residual_check.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/scripted_engine.h"
#include "worker/training/evaluate.h"

namespace capstan {
namespace {

using Values = std::vector<float>;

// To 8 significant bits, ties to even.
float RoundToBfloat16(float value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(mantissa * 256), exponent - 8));
}

Values RoundAll(Values values) {
  for (float& value : values) value = RoundToBfloat16(value);
  return values;
}

// All but the largest become 0.
Values KeepLargest(const Values& values, double ratio_or_count) {
  const auto size = static_cast<double>(values.size());
  const double count =
      ratio_or_count < 1 ? std::ceil(ratio_or_count * size) : std::min(ratio_or_count, size);
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&values](size_t left, size_t right) {
    return std::abs(values[left]) > std::abs(values[right]);
  });
  Values largest(values.size());
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) largest[order[i]] = values[order[i]];
  return largest;
}

// What a push of `values` brings to the server. The rounding of int8 is the codec's own; the rest
// is written here once more.
Values Sent(const std::string& codec, const Values& values, const DrawKey& key) {
  if (codec == "bfloat16") return RoundAll(values);
  const std::vector<std::string> parts = absl::StrSplit(codec, ':');
  if (parts.back() == "int8") {
    const std::shared_ptr<const Codec> int8 = MakeCodec(codec).value();
    std::vector<uint8_t> bytes(int8->EncodedBytes(values.size()));
    CHECK(int8->Encode(values, key, /*residual=*/{}, absl::MakeSpan(bytes)).ok());
    Values decoded(values.size());
    int8->Decode(bytes, values.size(), /*begin=*/0, absl::MakeSpan(decoded));
    return decoded;
  }
  double ratio_or_count = 0;
  CHECK(parts[0] == "topk" && absl::SimpleAtod(parts.at(1), &ratio_or_count)) << codec;
  Values largest = KeepLargest(values, ratio_or_count);
  return parts.back() == "bfloat16" ? RoundAll(std::move(largest)) : largest;
}

// The gradient, as the worker's engine computes it.
Values GradientOf(const Scenario& scenario, WorkerId worker, Step step, SliceKey key, size_t size) {
  Values gradient(size);
  for (size_t i = 0; i < size; ++i) {
    gradient[i] = scenario.gradient_unit * DenseGradient(worker, step, key, i);
  }
  return gradient;
}

size_t SliceSize(const Scenario& scenario) {
  return scenario.job.scheduler().slice_bytes() / sizeof(float);
}

// Changes the slice's values and residuals, which are 0 at first.
void TrainSlice(const Scenario& scenario, SliceKey key, absl::Span<float> values,
                absl::Span<double> residuals) {
  const uint32_t workers = scenario.job.cluster().num_workers();
  std::vector<Values> residual_of(workers, Values(values.size()));
  for (Step step; step < Step(scenario.steps); step = step + 1) {
    Values sum(values.size());
    for (uint32_t worker = 0; worker < workers; ++worker) {
      const DrawKey draws{scenario.job.seed(), key.table, WorkerId(worker), step, key.slice};
      Values push = GradientOf(scenario, draws.worker, step, key, values.size());
      for (size_t i = 0; i < push.size(); ++i) push[i] += residual_of[worker][i];
      const Values sent = Sent(scenario.job.codec().push(), push, draws);
      for (size_t i = 0; i < push.size(); ++i) {
        residual_of[worker][i] = push[i] - sent[i];
        sum[i] += sent[i];
      }
    }
    for (size_t i = 0; i < sum.size(); ++i) values[i] -= sum[i] / static_cast<float>(workers);
  }
  for (const Values& residual : residual_of) {
    for (size_t i = 0; i < residual.size(); ++i) residuals[i] += static_cast<double>(residual[i]);
  }
}

template <typename Use>
void ForEachSlice(const Scenario& scenario, Use use) {
  for (uint32_t table = 0; table < scenario.tables.size(); ++table) {
    const size_t elements = scenario.tables[table].shape(0);
    for (size_t begin = 0; begin < elements; begin += SliceSize(scenario)) {
      const SliceIndex slice(static_cast<uint32_t>(begin / SliceSize(scenario)));
      use(SliceKey{TableId(table), slice}, begin, std::min(SliceSize(scenario), elements - begin));
    }
  }
}

// What all gradients of the slice add up to.
std::vector<double> SumOfGradients(const Scenario& scenario, SliceKey key, size_t size) {
  std::vector<double> sum(size);
  for (uint32_t worker = 0; worker < scenario.job.cluster().num_workers(); ++worker) {
    for (Step step; step < Step(scenario.steps); step = step + 1) {
      const Values gradient = GradientOf(scenario, WorkerId(worker), step, key, size);
      for (size_t i = 0; i < size; ++i) sum[i] += static_cast<double>(gradient[i]);
    }
  }
  return sum;
}

std::string WrongParameters(const SimulationResult& result,
                            const std::vector<std::vector<float>>& tables) {
  const std::vector<absl::Span<const float>> spans(tables.begin(), tables.end());
  const uint64_t expected = HashParameters(spans);
  const uint64_t got = result.outcome->result.parameters_xxh3();
  if (got == expected) return "";
  return absl::StrCat("error feedback: expected final parameters with the XXH3-64 ",
                      absl::Hex(expected), ", got ", absl::Hex(got));
}

// Every worker's residual of every slice is needed once.
std::string WrongSum(const Scenario& scenario, const SimulationResult& result) {
  std::vector<Values> tables;
  for (const v1::TableSpec& table : scenario.tables) tables.emplace_back(table.shape(0));
  std::string wrong;
  ForEachSlice(scenario, [&](SliceKey key, size_t begin, size_t size) {
    std::vector<double> received = SumOfGradients(scenario, key, size);
    uint32_t residuals = 0;
    for (const FinalResidual& residual : result.residuals) {
      if (residual.slice != key) continue;
      ++residuals;
      for (size_t i = 0; i < size; ++i) received[i] -= static_cast<double>(residual.values.at(i));
    }
    if (residuals != scenario.job.cluster().num_workers()) {
      wrong = absl::StrCat("error feedback: expected a final residual of each of ",
                           scenario.job.cluster().num_workers(), " workers, got ", residuals);
    }
    for (size_t i = 0; i < size; ++i) {
      tables[key.table.value()][begin + i] = static_cast<float>(0 - received[i]);
    }
  });
  return wrong.empty() ? WrongParameters(result, tables) : wrong;
}

}  // namespace

ResidualTraining TrainWithResiduals(const Scenario& scenario) {
  ResidualTraining training;
  for (const v1::TableSpec& table : scenario.tables) {
    training.values.emplace_back(table.shape(0));
    training.residuals.emplace_back(table.shape(0));
  }
  ForEachSlice(scenario, [&](SliceKey key, size_t begin, size_t size) {
    const uint32_t table = key.table.value();
    TrainSlice(scenario, key, absl::MakeSpan(training.values[table]).subspan(begin, size),
               absl::MakeSpan(training.residuals[table]).subspan(begin, size));
  });
  return training;
}

std::string WrongEnd(const Scenario& scenario, const SimulationResult& result) {
  if (scenario.job.consistency().mode() != v1::ConsistencySpec::BSP) {
    return WrongSum(scenario, result);
  }
  // The evaluator pulls exact values, whatever the codec of pulls.
  return WrongParameters(result, TrainWithResiduals(scenario).values);
}

}  // namespace capstan
