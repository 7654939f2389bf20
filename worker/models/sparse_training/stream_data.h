#ifndef WORKER_MODELS_SPARSE_TRAINING_STREAM_DATA_H_
#define WORKER_MODELS_SPARSE_TRAINING_STREAM_DATA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/job/csv_columns.h"
#include "proto/job.pb.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/synthetic_ctr.h"
#include "worker/dataset/sparse/text_sample_stream.h"

namespace capstan {

// The data of a job whose samples are a stream: opens its streams. Immutable.
class StreamData {
 public:
  // Finds the files, but reads none. `clock` outlives all streams. INVALID_ARGUMENT for data that
  // do not fit the model, or the errors of TextSampleStream::Create.
  static absl::StatusOr<std::unique_ptr<const StreamData>> Open(const v1::JobSpec& job,
                                                                Clock* clock);

  // Of each sample. Fields are 0 for a format without them.
  size_t field_count() const { return field_count_; }
  size_t dense_count() const { return dense_count_; }
  // Number of samples of all workers in one epoch; 0: a file tells at its end.
  uint64_t pass_samples() const;

  // A worker's training samples: those of all epochs, or without end if steps count. Read ahead in
  // batches of the job's batch size.
  absl::StatusOr<std::unique_ptr<SampleStream>> OpenTraining(const SampleShare& share) const;

  // All held-out samples, once, in batches of kTestBatch. Null: there are none.
  static constexpr size_t kTestBatch = 1024;
  absl::StatusOr<std::unique_ptr<SampleStream>> OpenTest() const;

  // The AUC of the model that labelled synthetic samples; none for other data.
  std::optional<double> BestTestAuc() const;

 private:
  StreamData(const v1::JobSpec& job, Clock* clock) : job_(job), clock_(clock) {}

  absl::Status SetUp();
  absl::Status SetUpColumns();
  bool is_synthetic() const { return synthetic_ != nullptr; }
  absl::StatusOr<std::unique_ptr<LineParser>> MakeParser() const;
  absl::StatusOr<std::unique_ptr<SampleStream>> OpenFile(const std::string& path, uint64_t passes,
                                                         const SampleShare& share) const;
  absl::StatusOr<std::unique_ptr<SampleStream>> OpenSynthetic(SyntheticCtr::Part part,
                                                              uint64_t passes,
                                                              const SampleShare& share) const;

  const v1::JobSpec job_;
  Clock* const clock_;
  std::unique_ptr<const SyntheticCtr> synthetic_;  // null: the samples are in files
  std::vector<CsvColumn> columns_;                 // of a CSV file
  char delimiter_ = ',';
  size_t field_count_ = 0;
  size_t dense_count_ = 0;
};

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_STREAM_DATA_H_
