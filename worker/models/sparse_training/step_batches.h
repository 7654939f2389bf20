#ifndef WORKER_MODELS_SPARSE_TRAINING_STEP_BATCHES_H_
#define WORKER_MODELS_SPARSE_TRAINING_STEP_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// The steps of each worker in `epochs` passes through `pass_samples` samples, which are split among
// `num_workers`: enough for the worker with the largest share.
int64_t StepsOfEpochs(uint64_t epochs, uint64_t pass_samples, uint64_t num_workers,
                      uint64_t batch_size);

// Cuts a worker's stream into the batches of its steps. All workers have equally many. Not
// thread-safe.
class StepBatches {
 public:
  struct Options {
    size_t batch_size = 0;  // Required
    int64_t steps = 0;      // 0: epochs decide
    uint64_t epochs = 1;
    SampleShare share;
  };

  // The stream has at least the samples of all steps, or ends after the epochs. `stream` outlives
  // this.
  StepBatches(const Options& options, SampleStream* stream) : options_(options), stream_(*stream) {}

  // Replaces `batch` by the samples of the next step. False: there is no further step. In the last
  // steps of all epochs, a worker with a smaller share may have fewer samples, or none.
  // OUT_OF_RANGE: the stream has ended before Options::steps. Otherwise the stream's errors.
  absl::StatusOr<bool> Next(SparseBatch* batch);

 private:
  // Leaves in `batch` what belongs to the epochs. False: nothing does.
  bool CutToEpochs(SparseBatch* batch);

  const Options options_;
  SampleStream& stream_;
  int64_t step_ = 0;
  uint64_t taken_ = 0;  // samples of earlier steps
};

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_STEP_BATCHES_H_
