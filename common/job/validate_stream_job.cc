#include "common/job/validate_stream_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/job/csv_columns.h"
#include "common/job/job_properties.h"

namespace capstan {
namespace {

// The one of worker/dataset/sparse.
constexpr uint64_t kLeastKeys = 104;
constexpr uint64_t kMostSamples = uint64_t{1} << 40;
constexpr uint32_t kMostEpochs = 1 << 20;
constexpr uint32_t kMostBatch = 1 << 20;
constexpr uint64_t kMostKeys = uint64_t{1} << 32;

bool IsDeepFm(const v1::JobSpec& job) { return job.model().type() == v1::ModelSpec::DEEPFM; }

void CheckModel(const v1::JobSpec& job, JobChecker* checker) {
  const v1::ModelSpec& model = job.model();
  const bool is_deepfm = model.type() == v1::ModelSpec::DEEPFM;
  checker->Expect(is_deepfm || model.hidden().empty(), "hidden",
                  "nothing (--hidden=), as sparse_logistic_regression has no hidden layers");
  checker->Expect(model.precision() == v1::ModelSpec::FLOAT32, "precision",
                  "float32, as the model has no other");
  checker->Expect(model.embedding_dim() >= 1 && model.embedding_dim() <= 1023, "embedding_dim",
                  "1 to 1023");
  checker->Expect(model.embedding_stddev() > 0 && std::isfinite(model.embedding_stddev()),
                  "model.embedding_stddev", "a finite number above 0");
  const v1::RowsSpec& rows = model.rows();
  checker->Expect(rows.admitting_push() >= 1 && rows.admitting_push() <= 255, "admitting_push",
                  "1 to 255");
  checker->Expect(rows.max_idle_steps() <= UINT32_MAX, "max_idle_steps", "less than 2^32");
  checker->Expect(rows.max_rows() == 0 || rows.max_rows() >= job.cluster().shard_count(),
                  "max_rows",
                  absl::StrCat("0, or at least one row for each of the ",
                               job.cluster().shard_count(), " shards (--shard_count)"));
}

void CheckCsv(const v1::JobSpec& job, JobChecker* checker) {
  const auto columns = ParseCsvColumns(job.data().columns());
  checker->ExpectOk(columns.status(), "columns");
  checker->ExpectOk(ParseDelimiter(job.data().delimiter()).status(), "delimiter");
  if (!columns.ok() || !IsDeepFm(job)) return;
  checker->Expect(
      std::find(columns->begin(), columns->end(), CsvColumn::kCategorical) != columns->end(),
      "columns", "a categorical one, as deepfm learns vectors of categories");
}

void CheckSyntheticCtr(const v1::SyntheticCtrSpec& data, JobChecker* checker) {
  checker->Expect(data.samples() >= 1 && data.samples() <= kMostSamples,
                  "data.synthetic_ctr.samples", "1 to 2^40");
  checker->Expect(data.test_samples() >= 1, "data.synthetic_ctr.test_samples", "1 or more");
  checker->Expect(data.keys() >= kLeastKeys && data.keys() <= kMostKeys, "data.synthetic_ctr.keys",
                  "104 to 2^32");
  checker->Expect(data.zipf_exponent() >= 0 && data.zipf_exponent() <= 4,
                  "data.synthetic_ctr.zipf_exponent", "0 to 4");
}

void CheckFormat(const v1::JobSpec& job, JobChecker* checker) {
  switch (job.data().format()) {
    case v1::DataSpec::LIBSVM:
      return checker->Expect(!IsDeepFm(job), "data_format",
                             "libffm, csv or synthetic_ctr, as deepfm needs the features' fields");
    case v1::DataSpec::LIBFFM:
      return checker->Expect(
          !IsDeepFm(job) || (job.data().fields() >= 1 && job.data().fields() <= 65536), "fields",
          "the number of fields, 1 to 65536, as the model is deepfm");
    case v1::DataSpec::CSV:
      return CheckCsv(job, checker);
    case v1::DataSpec::SYNTHETIC_CTR:
      return CheckSyntheticCtr(job.data().synthetic_ctr(), checker);
    case v1::DataSpec::DIGITS:
    case v1::DataSpec::IDX:
    case v1::DataSpec::SYNTHETIC:
    case v1::DataSpec::FORMAT_UNSPECIFIED:
      break;
  }
  checker->Expect(false, "data_format",
                  IsDeepFm(job) ? "libffm, csv or synthetic_ctr, as the model is deepfm"
                                : "libsvm, libffm, csv or synthetic_ctr, as the model is "
                                  "sparse_logistic_regression");
}

void CheckStandardInput(const v1::JobSpec& job, JobChecker* checker) {
  const v1::TrainingSpec& training = job.training();
  checker->Expect(job.data().test_path() != kStandardInputPath, "test_path",
                  "a file, as it is read at the job's end");
  if (job.data().path() != kStandardInputPath) return;
  checker->Expect(job.cluster().num_workers() == 1, "num_workers",
                  "1, as several workers cannot share a standard input (data_path is -)");
  checker->Expect(training.steps() > 0 || training.epochs() == 1, "epochs",
                  "1, as a standard input can be read only once (data_path is -)");
  checker->Expect(!job.stay(), "stay", "false (--nostay), as data_path is -");
  checker->Expect(
      job.checkpoint().restore().empty(), "restore",
      "nothing, as the samples before the checkpoint do not come again (data_path is -)");
}

// How far each worker goes must be known from the start, for checkpoints and for rounds. A batch is
// in memory.
void CheckLength(const v1::JobSpec& job, JobChecker* checker) {
  checker->Expect(job.training().epochs() <= kMostEpochs, "epochs", "at most 2^20");
  checker->Expect(job.training().batch_size() <= kMostBatch, "batch_size",
                  "at most 1,048,576, as a batch of a stream is in memory");
  const bool is_known =
      job.training().steps() > 0 || job.data().format() == v1::DataSpec::SYNTHETIC_CTR;
  checker->Expect(is_known || job.checkpoint().dir().empty(), "steps",
                  "the number of steps, as there is a checkpoint_dir, and the length of a file is "
                  "not known");
  checker->Expect(is_known || !job.stay(), "steps",
                  "the number of steps, as the job stays, and the length of a file is not known");
}

void CheckOptimizer(const v1::JobSpec& job, JobChecker* checker) {
  const auto type = job.optimizer().type();
  const bool is_ftrl = type == v1::OptimizerSpec::FTRL;
  const bool is_of_rows = type == v1::OptimizerSpec::SGD || type == v1::OptimizerSpec::ADAGRAD ||
                          type == v1::OptimizerSpec::ROW_ADAGRAD || type == v1::OptimizerSpec::ADAM;
  if (IsDeepFm(job)) {
    checker->Expect(is_of_rows, "optimizer", "sgd, adagrad, row_adagrad or adam for deepfm");
  } else {
    checker->Expect(is_of_rows || is_ftrl, "optimizer",
                    "ftrl, sgd, adagrad, row_adagrad or adam for sparse_logistic_regression");
  }
  checker->Expect(job.optimizer().weight_decay() == 0, "weight_decay",
                  "0, as sparse tables have none");
}

}  // namespace

void CheckStreamJob(const v1::JobSpec& job, JobChecker* checker) {
  CheckModel(job, checker);
  CheckFormat(job, checker);
  CheckStandardInput(job, checker);
  CheckLength(job, checker);
  CheckOptimizer(job, checker);
}

void CheckHasNoStream(const v1::JobSpec& job, JobChecker* checker) {
  const v1::DataSpec& data = job.data();
  const bool is_of_streams = data.format() == v1::DataSpec::LIBFFM ||  //
                             data.format() == v1::DataSpec::SYNTHETIC_CTR;
  checker->Expect(!is_of_streams, "data_format",
                  "digits, csv, idx, libsvm or synthetic, as the model is neither "
                  "sparse_logistic_regression nor deepfm");
  checker->Expect(data.columns().empty(), "columns",
                  "nothing, as the model is neither sparse_logistic_regression nor deepfm");
  checker->Expect(data.path() != kStandardInputPath, "data_path",
                  "a file, as only sparse_logistic_regression and deepfm read standard input");
}

}  // namespace capstan
