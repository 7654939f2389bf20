#include "tests/simulation/residual_check.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/scripted_engine.h"
#include "worker/models/training/evaluate.h"

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

// Whether a topk sends each of the values.
std::vector<bool> SelectLargest(const Values& values, double ratio_or_count) {
  const auto size = static_cast<double>(values.size());
  const double count =
      ratio_or_count < 1 ? std::ceil(ratio_or_count * size) : std::min(ratio_or_count, size);
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&values](size_t left, size_t right) {
    return std::abs(values[left]) > std::abs(values[right]);
  });
  std::vector<bool> is_sent(values.size());
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) is_sent[order[i]] = true;
  return is_sent;
}

double RatioOrCount(const std::string& topk) {
  const std::vector<std::string> parts = absl::StrSplit(topk, ':');
  double ratio_or_count = 0;
  CHECK(parts[0] == "topk" && absl::SimpleAtod(parts.at(1), &ratio_or_count)) << topk;
  return ratio_or_count;
}

// All but the largest become 0.
Values KeepLargest(Values values, double ratio_or_count) {
  const std::vector<bool> is_sent = SelectLargest(values, ratio_or_count);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!is_sent[i]) values[i] = 0;
  }
  return values;
}

// What a push of `values` brings to the server. The rounding of int8 is the codec's own; the rest
// is written here once more.
Values Sent(const std::string& codec, const Values& values, const DrawKey& key) {
  if (codec == "float32") return values;
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
  Values largest = KeepLargest(values, RatioOrCount(codec));
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

// The learning rate of the worker's push. That of the job is 1.
float RateOf(const Scenario& scenario, WorkerId worker, Step step, TableId table) {
  if (!scenario.program.has_value()) return 1;
  return static_cast<float>(scenario.program->LearningRate(worker, step, table).value_or(1));
}

size_t SliceSize(const Scenario& scenario) {
  return scenario.job.scheduler().slice_bytes() / sizeof(float);
}

// Gives the copy, which differs from the values, a part of what it lacks. The draws of pulls are
// not known here: none of their codecs has any.
void MoveCopy(const std::string& codec, absl::Span<const float> values, Values& copy) {
  Values lacks(values.size());
  size_t changed = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    lacks[i] = values[i] - copy[i];
    changed += std::memcmp(&values[i], &copy[i], sizeof(float)) == 0 ? 0 : 1;
  }
  const size_t bytes = MakeCodec(codec).value()->EncodedBytes(values.size());
  if (8 * changed <= std::min(4 * bytes, 4 * values.size())) {
    copy.assign(values.begin(), values.end());
    return;
  }
  const Values sent = Sent(codec, lacks, DrawKey());
  for (size_t i = 0; i < copy.size(); ++i) {
    if (sent[i] != 0) copy[i] += sent[i];
  }
}

// The codec of pushes, or that of a part of the warm-up if it sends more.
std::string PushAt(const Scenario& scenario, Step step) {
  const v1::CodecSpec& spec = scenario.job.codec();
  if (spec.push() == kAutoCodec) {
    return step < Step(scenario.auto_codecs_from) ? "float32" : "int8";
  }
  const auto part = static_cast<int64_t>(spec.dgc_warmup_steps() / 5);
  if (!spec.dgc() || step >= Step(5 * part)) return spec.push();
  constexpr const char* kRatios[] = {"topk:0.25", "topk:0.0625", "topk:0.015625", "topk:0.004",
                                     "topk:0.001"};
  std::string warmup = kRatios[step.value() / part];
  const std::vector<std::string> parts = absl::StrSplit(spec.push(), ':');
  if (parts.size() > 2) absl::StrAppend(&warmup, ":", parts[2]);
  const size_t size = SliceSize(scenario);
  const bool is_longer = MakeCodec(warmup).value()->EncodedBytes(size) >
                         MakeCodec(spec.push()).value()->EncodedBytes(size);
  return is_longer ? warmup : spec.push();
}

bool HasCopies(const Scenario& scenario) {
  return absl::StartsWith(scenario.job.codec().pull(), "topk");
}

// Changes the slice's values and residuals, which are 0 at first. Residuals are those of the job's
// learning rate. A push with another one takes as much more of them along as its rate is smaller. A
// push with the rate 0 takes none, and leaves none.
void TrainSlice(const Scenario& scenario, SliceKey key, absl::Span<float> values,
                absl::Span<double> residuals,
                std::map<CodecWatch::VersionOfSlice, Values>& copies) {
  const uint32_t workers = scenario.job.cluster().num_workers();
  const v1::CodecSpec& codec = scenario.job.codec();
  std::vector<Values> residual_of(workers, Values(values.size()));
  std::vector<Values> momentum_of(workers, Values(values.size()));
  Values copy(values.size());
  if (HasCopies(scenario)) copies[{key, 0}] = copy;
  uint64_t version = 0;
  for (Step step; step < Step(scenario.steps); step = step + 1) {
    Values sum(values.size());
    std::optional<float> step_rate;  // of the first worker with a gradient
    for (uint32_t worker = 0; worker < workers; ++worker) {
      if (!HasGradient(scenario, WorkerId(worker), step, key.table)) continue;
      const float rate = RateOf(scenario, WorkerId(worker), step, key.table);
      if (!step_rate.has_value()) step_rate = rate;
      const DrawKey draws{scenario.job.seed(), key.table, WorkerId(worker), step,
                          key.slice.value() * SliceSize(scenario)};
      Values push = GradientOf(scenario, draws.worker, step, key, values.size());
      Values& momentum = momentum_of[worker];
      for (size_t i = 0; i < push.size() && codec.dgc(); ++i) {
        momentum[i] = static_cast<float>(codec.dgc_momentum()) * momentum[i] + push[i];
        push[i] = momentum[i];
      }
      Values& residual = residual_of[worker];
      for (size_t i = 0; i < push.size() && rate != 0; ++i) push[i] += residual[i] / rate;
      const std::string of_step = PushAt(scenario, step);
      const Values sent = Sent(of_step, push, draws);
      for (size_t i = 0; i < push.size(); ++i) {
        if (rate != 0) residual[i] = (push[i] - sent[i]) * rate;
        sum[i] += sent[i];
      }
      if (!codec.dgc()) continue;
      const std::vector<bool> is_sent = SelectLargest(push, RatioOrCount(of_step));
      for (size_t i = 0; i < push.size(); ++i) momentum[i] = is_sent[i] ? 0 : momentum[i];
    }
    if (!step_rate.has_value()) continue;
    ++version;
    for (size_t i = 0; i < sum.size(); ++i) {
      values[i] -= *step_rate * (sum[i] / static_cast<float>(workers));
    }
    if (!HasCopies(scenario)) continue;
    MoveCopy(scenario.job.codec().pull(), values, copy);
    copies[{key, version}] = copy;
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

// What all gradients of the slice, times their learning rates, add up to.
std::vector<double> SumOfGradients(const Scenario& scenario, SliceKey key, size_t size) {
  std::vector<double> sum(size);
  for (uint32_t worker = 0; worker < scenario.job.cluster().num_workers(); ++worker) {
    for (Step step; step < Step(scenario.steps); step = step + 1) {
      if (!HasGradient(scenario, WorkerId(worker), step, key.table)) continue;
      const Values gradient = GradientOf(scenario, WorkerId(worker), step, key, size);
      const float rate = RateOf(scenario, WorkerId(worker), step, key.table);
      for (size_t i = 0; i < size; ++i) sum[i] += static_cast<double>(rate * gradient[i]);
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
               absl::MakeSpan(training.residuals[table]).subspan(begin, size), training.copies);
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

std::string WrongCopies(const Scenario& scenario, const SimulationResult& result) {
  if (result.copies.empty()) return "";
  const ResidualTraining training = TrainWithResiduals(scenario);
  for (const auto& [version_of_slice, copy] : result.copies) {
    const auto expected = training.copies.find(version_of_slice);
    if (expected != training.copies.end() && expected->second == copy) continue;
    const auto& [slice, version] = version_of_slice;
    return absl::StrCat("differences: the workers have other values of version ", version,
                        " of slice ", slice.slice.value(), " of table ", slice.table.value(),
                        " than the differences of a serial training add up to");
  }
  return "";
}

}  // namespace capstan
