#include "worker/models/training/evaluate.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "common/base/status_macros.h"

namespace capstan {
absl::StatusOr<Evaluation> Evaluate(
    size_t sample_count,
    absl::FunctionRef<absl::StatusOr<BatchResult>(absl::Span<const uint32_t> samples)> run) {
  std::vector<uint32_t> indices(sample_count);
  std::iota(indices.begin(), indices.end(), 0);
  BatchResult total;
  for (size_t begin = 0; begin < indices.size(); begin += kEvaluationBatch) {
    ASSIGN_OR_RETURN(const BatchResult result,
                     run(absl::MakeConstSpan(indices).subspan(begin, kEvaluationBatch)));
    total.loss_sum += result.loss_sum;
    total.correct += result.correct;
  }
  const double count = static_cast<double>(sample_count);
  return Evaluation{static_cast<double>(total.correct) / count, total.loss_sum / count};
}

ConstantGuess BestConstantGuess(absl::Span<const int32_t> labels) {
  std::map<int32_t, int64_t> counts;
  for (const int32_t label : labels) ++counts[label];
  ConstantGuess guess;
  for (const auto& [label, count] : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(labels.size());
    guess.accuracy = std::max(guess.accuracy, share);
    guess.loss -= share * std::log(share);
  }
  return guess;
}

uint64_t HashParameters(absl::Span<const absl::Span<const float>> parameters) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const absl::Span<const float> table : parameters) {
    XXH3_64bits_update(state.get(), table.data(), table.size() * sizeof(float));
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace capstan
