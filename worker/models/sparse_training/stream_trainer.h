#ifndef WORKER_MODELS_SPARSE_TRAINING_STREAM_TRAINER_H_
#define WORKER_MODELS_SPARSE_TRAINING_STREAM_TRAINER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/models/sparse_training/evaluate_stream.h"
#include "worker/models/sparse_training/sparse_model.h"
#include "worker/models/sparse_training/stream_data.h"
#include "worker/program/program_engine.h"

namespace capstan {

// Trains a model on a stream of samples, and tests it, as a program does: through a ProgramEngine.
// The push of a step asks for the rows of the next step's batch. Run by one thread.
class StreamTrainer {
 public:
  struct Options {
    v1::JobSpec job;                   // Required
    int64_t steps = 0;                 // of each worker; 0: the end of the samples tells
    const StreamData* data = nullptr;  // Required, as all below; outlives the trainer
    SparseModel* model = nullptr;
    ProgramEngine* engine = nullptr;  // with the model's tables
  };

  explicit StreamTrainer(Options options);

  // Works until the job has ended. Its own errors are those of the data; a job that has failed
  // returns the engine's error.
  absl::Status Run(WorkerId worker);
  // Ends a wait of Run for samples. Any thread.
  void Cancel();

 private:
  // The samples of one step, with their keys and rows.
  struct StepInput {
    SparseBatch batch;
    std::vector<uint64_t> keys;
    std::vector<float> rows;
  };

  absl::StatusOr<std::shared_ptr<SampleStream>> OpenStream(const SampleShare& share);
  absl::Status Train(const SampleShare& share);
  // Waits for the rows of the input's keys.
  absl::Status ReadRows(StepInput& input);
  // Reads the rows of `input`, computes and pushes the gradients, and asks for the rows of
  // `next_keys`.
  absl::Status TrainStep(StepInput& input, absl::Span<const uint64_t> next_keys);
  absl::Status Evaluate(v1::ReportResultRequest& result);
  absl::Status LogOddsOf(const SparseBatch& batch, absl::Span<float> log_odds);
  // The factor of the gradients of the sum of losses over a batch.
  float GradientScale(size_t samples) const;

  const Options options_;
  const bool is_ftrl_;
  StepInput evaluated_;
  std::vector<float> log_odds_;
  std::vector<float> log_odds_gradient_;
  std::vector<float> row_gradients_;
  LabelCounts labels_;
  // Of the test samples' keys, to report how many weights are not 0. Filled for
  // SPARSE_LOGISTIC_REGRESSION alone.
  absl::flat_hash_set<uint64_t> seen_;
  uint64_t nonzero_ = 0;

  Mutex mu_;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<SampleStream> stream_ ABSL_GUARDED_BY(mu_);  // null before it is open
};

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_STREAM_TRAINER_H_
