#include "deploy/cli/evaluate_command.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/printable_text.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "common/job/job_properties.h"
#include "common/model_file/model_file.h"
#include "common/routing/job_view.h"
#include "common/tensor/host_buffer.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/gradients.h"
#include "kernels/gemm.h"
#include "proto/coordinator_service.pb.h"
#include "server/sparse/initial_row.h"
#include "worker/dataset/load_data.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/models/sparse_training/evaluate_stream.h"
#include "worker/models/sparse_training/make_sparse_model.h"
#include "worker/models/sparse_training/sparse_model.h"
#include "worker/models/sparse_training/stream_data.h"
#include "worker/models/training/evaluate.h"
#include "worker/models/training/gathered_batch.h"
#include "worker/models/training/make_model.h"
#include "worker/models/training/model_on_cpu.h"

namespace capstan {
namespace {

// What the job's test samples say of a model.
struct Result {
  uint64_t samples = 0;
  double accuracy = 0;
  double loss = 0;
  std::optional<double> auc;
  std::string warning;                      // what is probably wrong in the data
  std::optional<uint64_t> parameters_xxh3;  // of dense tables
};

absl::Status CheckFinite(const std::string& table, absl::Span<const float> values) {
  if (IsFinite(values)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "table ", PrintableText(table), ": expected finite values, got a NaN or an infinity"));
}

// The values of the model's tables, from the file; empty for sparse ones.
absl::StatusOr<std::vector<HostBuffer>> ReadTables(ModelTables& file,
                                                   const std::vector<v1::TableSpec>& tables) {
  RETURN_IF_ERROR(file.CheckTables({tables.begin(), tables.end()}));
  std::vector<HostBuffer> values;
  for (const v1::TableSpec& table : tables) {
    const uint64_t size = table.has_sparse() ? 0 : ElementCount(table);
    ASSIGN_OR_RETURN(values.emplace_back(), HostBuffer::Create(size));
    if (table.has_sparse()) continue;
    RETURN_IF_ERROR(file.ReadValues(table.name(), /*offset=*/0, values.back().span()));
    RETURN_IF_ERROR(CheckFinite(table.name(), values.back().span()));
  }
  return values;
}

std::vector<absl::Span<const float>> SpansOf(const std::vector<HostBuffer>& tables) {
  std::vector<absl::Span<const float>> values;
  for (const HostBuffer& table : tables) values.push_back(table.span());
  return values;
}

absl::StatusOr<Result> EvaluateModel(const v1::JobSpec& job, ModelTables& file) {
  ASSIGN_OR_RETURN(const DataSplit data, LoadData(job.data(), job.seed()));
  ASSIGN_OR_RETURN(auto made, MakeModel<CpuStream>(job.model(), data.train.feature_count,
                                                   data.train.class_count));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelOnCpu> model,
                   ModelOnCpu::Create(std::move(made), kEvaluationBatch));
  ASSIGN_OR_RETURN(const std::vector<HostBuffer> tables, ReadTables(file, model->model().tables()));
  const std::vector<absl::Span<const float>> values = SpansOf(tables);
  GatheredBatch batch;
  ASSIGN_OR_RETURN(const Evaluation evaluation,
                   Evaluate(data.test.size(), [&](absl::Span<const uint32_t> samples) {
                     batch.Gather(data.test, samples);
                     return model->Forward(batch.batch(), values,
                                           [](int) { return absl::OkStatus(); });
                   }));
  Result result;
  result.samples = data.test.size();
  result.accuracy = evaluation.accuracy;
  result.loss = evaluation.loss;
  result.warning = data.warning;
  result.parameters_xxh3 = HashParameters(values);
  return result;
}

// The rows of a model's sparse table, from its file. A key without a row has its initial values,
// as in a pull.
class FileRows {
 public:
  // INVALID_ARGUMENT: a key is there twice, or a value is a NaN or an infinity.
  static absl::StatusOr<FileRows> Create(const v1::JobSpec& job, const v1::TableSpec& table,
                                         ModelTables::Rows rows) {
    RETURN_IF_ERROR(CheckFinite(table.name(), rows.values));
    FileRows all(job, table, std::move(rows.values));
    all.places_.reserve(rows.keys.size());
    for (size_t i = 0; i < rows.keys.size(); ++i) {
      if (all.places_.emplace(rows.keys[i], i).second) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "table ", table.name(), ": expected distinct keys, got ", rows.keys[i], " twice"));
    }
    return all;
  }

  // Sets `values` to the rows of the keys. RESOURCE_EXHAUSTED: there are too many.
  absl::Status Read(absl::Span<const uint64_t> keys, std::vector<float>* values) const {
    RETURN_IF_ERROR(CheckRowsOfBatch(keys.size(), dim_, "give samples with fewer features"));
    values->resize(keys.size() * dim_);
    for (size_t i = 0; i < keys.size(); ++i) {
      const absl::Span<float> row = absl::MakeSpan(*values).subspan(i * dim_, dim_);
      const auto found = places_.find(keys[i]);
      if (found == places_.end()) {
        InitializeRow(seed_, SparseModel::kRows, initial_stddev_, keys[i], row);
      } else {
        std::copy_n(&values_[found->second * dim_], dim_, row.data());
      }
    }
    return absl::OkStatus();
  }

 private:
  FileRows(const v1::JobSpec& job, const v1::TableSpec& table, std::vector<float> values)
      : seed_(job.seed()),
        dim_(table.sparse().dim()),
        initial_stddev_(table.initial_stddev()),
        values_(std::move(values)) {}

  uint64_t seed_;
  size_t dim_;
  double initial_stddev_;
  std::vector<float> values_;
  absl::flat_hash_map<uint64_t, size_t> places_;  // of rows in values_
};

// The same for a model that learns from a stream.
absl::StatusOr<Result> EvaluateStreamModel(const v1::JobSpec& job, ModelTables& file) {
  RealClock clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<const StreamData> data, StreamData::Open(job, &clock));
  ASSIGN_OR_RETURN(const std::unique_ptr<SparseModel> model, MakeSparseModel(job, *data));
  ASSIGN_OR_RETURN(const std::unique_ptr<SampleStream> test, data->OpenTest());
  if (test == nullptr) {
    return absl::InvalidArgumentError(
        "--test_path: expected a file of samples to test the model with, got none");
  }
  ASSIGN_OR_RETURN(const std::vector<HostBuffer> tables, ReadTables(file, model->tables()));
  const std::vector<absl::Span<const float>> values = SpansOf(tables);
  const v1::TableSpec& of_rows = model->tables()[SparseModel::kRows.value()];
  ASSIGN_OR_RETURN(ModelTables::Rows in_file, file.ReadRows(of_rows.name()));
  ASSIGN_OR_RETURN(const FileRows all_rows, FileRows::Create(job, of_rows, std::move(in_file)));
  std::vector<uint64_t> keys;
  std::vector<float> rows;
  v1::ReportResultRequest reported;
  RETURN_IF_ERROR(EvaluateStream(
      *test, StreamData::kTestBatch, /*training=*/{},
      [&](const SparseBatch& batch, absl::Span<float> log_odds) {
        model->ListKeys(batch, &keys);
        RETURN_IF_ERROR(all_rows.Read(keys, &rows));
        return model->Forward(
            batch, rows, values, [](int) { return absl::OkStatus(); }, log_odds);
      },
      reported));
  Result result;
  result.samples = reported.test_samples();
  result.accuracy = reported.test_accuracy();
  result.loss = reported.test_loss();
  if (reported.has_test_auc()) result.auc = reported.test_auc();
  result.warning = reported.data_warning();
  if (tables.size() > 1) result.parameters_xxh3 = HashParameters(values);
  return result;
}

// All digits, as a summary has them.
std::string DigitsOf(double value) { return nlohmann::json(value).dump(); }

}  // namespace

absl::Status EvaluateCommand(const std::string& path, const std::string& job_file,
                             const std::vector<std::string>& job_flags, std::ostream& out) {
  ASSIGN_OR_RETURN(const v1::JobSpec job, EffectiveJob(job_file, job_flags));
  if (LearnsNothing(job.model())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model: expected a model that computes, got ",
                     absl::AsciiStrToLower(v1::ModelSpec::Type_Name(job.model().type())),
                     ", which learns nothing"));
  }
  if (job.model().type() == v1::ModelSpec::PROGRAM) {
    return absl::InvalidArgumentError(
        "--model: expected a model that is built in, got program: a program evaluates itself; read "
        "the file there, as any safetensors library does");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelTables> file, ModelTables::Open(path));
  UseOneBlasThread();  // as workers do: the order of sums depends on the number of threads
  RETURN_IF_ERROR(TakeBlasMemory());
  ASSIGN_OR_RETURN(const Result result, LearnsFromStream(job.model())
                                            ? EvaluateStreamModel(job, *file)
                                            : EvaluateModel(job, *file));
  for (const auto& [key, value] : file->header().metadata) {
    out << PrintableText(key) << ": " << PrintableText(value) << "\n";
  }
  out << "on the " << result.samples << " test samples of job " << PrintableText(job.name())
      << ":\n"
      << "test accuracy " << DigitsOf(result.accuracy) << "\n"
      << "test loss " << DigitsOf(result.loss) << "\n";
  if (result.auc.has_value()) out << "test AUC " << DigitsOf(*result.auc) << "\n";
  if (result.parameters_xxh3.has_value()) {
    out << "parameters_xxh3 " << absl::StrFormat("%016x", *result.parameters_xxh3) << "\n";
  }
  if (!result.warning.empty()) out << "warning: " << PrintableText(result.warning) << "\n";
  out << std::flush;
  return absl::OkStatus();
}

}  // namespace capstan
