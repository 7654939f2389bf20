#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "common/job/job_properties.h"
#include "common/model_file/model_file.h"
#include "common/routing/job_view.h"
#include "common/tensor/host_buffer.h"
#include "deploy/cli/commands.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/gemm.h"
#include "worker/dataset/load_data.h"
#include "worker/training/evaluate.h"
#include "worker/training/gathered_batch.h"
#include "worker/training/make_model.h"
#include "worker/training/model_on_cpu.h"

namespace capstan {
namespace {

// The values of the model's tables, from the file.
absl::StatusOr<std::vector<HostBuffer>> ReadTables(const ModelTables& file,
                                                   const std::vector<v1::TableSpec>& tables) {
  RETURN_IF_ERROR(file.CheckTables({tables.begin(), tables.end()}));
  std::vector<HostBuffer> values;
  for (const v1::TableSpec& table : tables) {
    ASSIGN_OR_RETURN(values.emplace_back(), HostBuffer::Create(ElementCount(table)));
    RETURN_IF_ERROR(file.ReadValues(table.name(), /*offset=*/0, values.back().span()));
  }
  return values;
}

// All digits, as a summary has them.
std::string DigitsOf(double value) { return nlohmann::json(value).dump(); }

}  // namespace

absl::Status EvaluateCommand(const std::string& path, const std::string& job_file,
                             const std::vector<std::string>& job_flags, std::ostream& out) {
  ASSIGN_OR_RETURN(const v1::JobSpec job, EffectiveJob(job_file, job_flags));
  if (job.model().type() == v1::ModelSpec::REPLAY) {
    return absl::InvalidArgumentError(
        "--model: expected a model that computes, got replay, which learns nothing");
  }
  if (job.model().type() == v1::ModelSpec::PROGRAM) {
    return absl::InvalidArgumentError(
        "--model: expected a model that is built in, got program: a program evaluates itself; read "
        "the file there, as any safetensors library does");
  }
  if (LearnsFromStream(job.model())) {
    return absl::InvalidArgumentError(
        "--model: expected a model with dense tables alone, got one with a sparse table: its job "
        "tests it at the end (--test_path)");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelTables> file, ModelTables::Open(path));
  ASSIGN_OR_RETURN(const DataSplit data, LoadData(job.data(), job.seed()));
  ASSIGN_OR_RETURN(auto made, MakeModel<CpuStream>(job.model(), data.train.feature_count,
                                                   data.train.class_count));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelOnCpu> model,
                   ModelOnCpu::Create(std::move(made), kEvaluationBatch));
  ASSIGN_OR_RETURN(const std::vector<HostBuffer> tables,
                   ReadTables(*file, model->model().tables()));
  std::vector<absl::Span<const float>> values;
  for (const HostBuffer& table : tables) values.push_back(table.span());

  UseOneBlasThread();  // as workers do: the order of sums depends on the number of threads
  GatheredBatch batch;
  ASSIGN_OR_RETURN(const Evaluation evaluation,
                   Evaluate(data.test.size(), [&](absl::Span<const uint32_t> samples) {
                     batch.Gather(data.test, samples);
                     return model->Forward(batch.batch(), values,
                                           [](int) { return absl::OkStatus(); });
                   }));
  for (const auto& [key, value] : file->header().metadata) {
    out << PrintableText(key) << ": " << PrintableText(value) << "\n";
  }
  out << "on the " << data.test.size() << " test samples of job " << PrintableText(job.name())
      << ":\n"
      << "test accuracy " << DigitsOf(evaluation.accuracy) << "\n"
      << "test loss " << DigitsOf(evaluation.loss) << "\n"
      << "parameters_xxh3 " << absl::StrFormat("%016x", HashParameters(values)) << std::endl;
  return absl::OkStatus();
}

}  // namespace capstan
