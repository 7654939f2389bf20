#ifndef WORKER_MODELS_SPARSE_TRAINING_EVALUATE_STREAM_H_
#define WORKER_MODELS_SPARSE_TRAINING_EVALUATE_STREAM_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/coordinator_service.pb.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// How many samples have which label.
struct LabelCounts {
  uint64_t zeros = 0;
  uint64_t ones = 0;

  void Add(absl::Span<const float> labels);
};

// Sets the result's accuracy, loss, AUC and number of samples, over all samples of `test`, which
// are read batch by batch. `log_odds_of` sets the log odds of each sample of a batch. The best
// constant answer is that of the labels in `training`. Memory: 8 bytes a sample. The errors are
// those of the stream and of `log_odds_of`.
absl::Status EvaluateStream(
    SampleStream& test, size_t batch_size, const LabelCounts& training,
    absl::FunctionRef<absl::Status(const SparseBatch& batch, absl::Span<float> log_odds)>
        log_odds_of,
    v1::ReportResultRequest& result);

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_EVALUATE_STREAM_H_
