#ifndef WORKER_DATASET_SPARSE_PREFETCHING_STREAM_H_
#define WORKER_DATASET_SPARSE_PREFETCHING_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// Reads batches of another stream ahead, on a thread of its own. The batches, the end and errors
// arrive in the source's order. Batches travel by a swap, without a copy. The destructor cancels
// the source, and waits for the thread.
class PrefetchingStream : public SampleStream {
 public:
  struct Options {
    size_t batch_size = 0;     // Required: samples that are read at once
    size_t batches_ahead = 2;  // most batches that are read, but not taken
  };

  // `clock` outlives the stream. INVALID_ARGUMENT when an option is 0.
  static absl::StatusOr<std::unique_ptr<PrefetchingStream>> Create(
      const Options& options, std::unique_ptr<SampleStream> source, Clock* clock);
  ~PrefetchingStream() override;

  // Batches have at most Options::batch_size samples. INVALID_ARGUMENT when `most` is smaller.
  absl::StatusOr<size_t> Next(size_t most, SparseBatch* batch) override;
  uint64_t pass_samples() const override { return pass_samples_; }
  void Cancel() override { source_->Cancel(); }

 private:
  struct Result {
    absl::StatusOr<size_t> count;
    SparseBatch batch;
    uint64_t pass_samples = 0;  // of the source, afterwards

    bool is_last() const { return !count.ok() || *count == 0; }
  };

  PrefetchingStream(const Options& options, std::unique_ptr<SampleStream> source, Clock* clock);

  void Run();
  bool MayReadLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const std::unique_ptr<SampleStream> source_;
  Clock* const clock_;
  uint64_t pass_samples_ = 0;  // of the last result that was taken

  Mutex mu_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Result> ready_ ABSL_GUARDED_BY(mu_);  // the last result of the source stays
  std::vector<SparseBatch> free_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;  // Last, because it uses all members above.
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_PREFETCHING_STREAM_H_
