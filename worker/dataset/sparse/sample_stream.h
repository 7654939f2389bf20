#ifndef WORKER_DATASET_SPARSE_SAMPLE_STREAM_H_
#define WORKER_DATASET_SPARSE_SAMPLE_STREAM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// Splits samples among workers: a worker has the samples i with i mod num_workers == worker. Then
// the k-th batches of all workers together are the k-th batch of one worker with a batch
// num_workers times as large. A worker finds its samples without an index of the file. It
// looks for the ends of the other workers' lines, and this is cheap beside parsing its own.
struct SampleShare {
  uint64_t worker = 0;
  uint64_t num_workers = 1;
};

inline absl::Status CheckShare(const SampleShare& share) {
  if (share.worker < share.num_workers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a worker below the number of workers, got worker ", share.worker,
                   " of ", share.num_workers, ": number the workers from 0"));
}

// Samples of one worker, batch by batch, in the order of their source. Only one batch is in memory.
// One thread at a time calls Next.
class SampleStream {
 public:
  virtual ~SampleStream() = default;

  // Replaces the samples in `batch` by the next ones, at least 1 and at most `most`, and returns
  // their number. 0 at the end of the samples, also in later calls. After an error, `batch` has no
  // meaning, and later calls return the same error. `most` is not 0.
  virtual absl::StatusOr<size_t> Next(size_t most, SparseBatch* batch) = 0;

  // Number of samples of all workers together in one pass through the source. 0 while that is not
  // known: a file tells at its end. Called by the thread of Next.
  virtual uint64_t pass_samples() const = 0;

  // Next, if it waits for input, and every later Next that needs input return CANCELLED.
  // Thread-safe.
  virtual void Cancel() = 0;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_SAMPLE_STREAM_H_
