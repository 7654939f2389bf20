#ifndef WORKER_DATASET_SPARSE_SYNTHETIC_CTR_STREAM_H_
#define WORKER_DATASET_SPARSE_SYNTHETIC_CTR_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/dataset/sparse/synthetic_ctr.h"

namespace capstan {

// One worker's samples of SyntheticCtr.
class SyntheticCtrStream : public SampleStream {
 public:
  struct Options {
    SyntheticCtr::Part part = SyntheticCtr::Part::kTraining;
    uint64_t passes = 1;  // through all samples; 0: without end
    SampleShare share;
  };

  // `data` outlives the stream. INVALID_ARGUMENT for a wrong share, or a worker
  // without samples.
  static absl::StatusOr<std::unique_ptr<SyntheticCtrStream>> Create(const Options& options,
                                                                    const SyntheticCtr* data);

  absl::StatusOr<size_t> Next(size_t most, SparseBatch* batch) override;
  uint64_t pass_samples() const override { return data_.Count(options_.part); }
  // It never waits.
  void Cancel() override {}

 private:
  SyntheticCtrStream(const Options& options, const SyntheticCtr* data)
      : options_(options), data_(*data), next_(options.share.worker) {}

  const Options options_;
  const SyntheticCtr& data_;
  uint64_t passes_done_ = 0;
  uint64_t next_;  // the number of a sample, or beyond the last one
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_SYNTHETIC_CTR_STREAM_H_
