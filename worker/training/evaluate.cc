#include "worker/training/evaluate.h"

#include <xxhash.h>

#include <memory>
#include <numeric>
#include <vector>

#include "common/base/status_macros.h"
#include "worker/training/gathered_batch.h"

namespace capstan {
namespace {

constexpr size_t kBatchSize = 256;

}  // namespace

absl::StatusOr<Evaluation> Evaluate(const Dataset& dataset, Model& model,
                                    absl::Span<const absl::Span<const float>> parameters) {
  std::vector<uint32_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  GatheredBatch gathered;
  BatchResult total;
  for (size_t begin = 0; begin < indices.size(); begin += kBatchSize) {
    const Batch batch =
        gathered.Gather(dataset, absl::MakeConstSpan(indices).subspan(begin, kBatchSize));
    ASSIGN_OR_RETURN(const BatchResult result,
                     model.Forward(batch, parameters, [](int) { return absl::OkStatus(); }));
    total.loss_sum += result.loss_sum;
    total.correct += result.correct;
  }
  const double count = static_cast<double>(dataset.size());
  return Evaluation{static_cast<double>(total.correct) / count, total.loss_sum / count};
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
