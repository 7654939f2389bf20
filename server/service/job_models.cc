#include "server/service/job_models.h"

#include <fcntl.h>
#include <glog/logging.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/table_tensors.h"
#include "kernels/cpu/gradients.h"
#include "server/checkpoint/write_dense_slice.h"

namespace capstan {
namespace {

// As of a state that a worker loads.
constexpr float kMostSteps = 0x1p62f;

absl::Status ReadFinite(const ModelTables& model, const std::string& tensor, uint64_t offset,
                        bool check_finite, absl::Span<float> floats) {
  RETURN_IF_ERROR(model.ReadValues(tensor, offset, floats));
  if (!check_finite || IsFinite(floats)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(tensor, " holds a NaN or an infinity in the file; choose another model"));
}

absl::Status ReadState(const ModelTables& model, const StateTensors& state, uint64_t offset,
                       SliceState::Memory& memory) {
  for (size_t i = 0; i < state.arrays.size(); ++i) {
    RETURN_IF_ERROR(ReadFinite(model, state.arrays[i], offset, /*check_finite=*/true,
                               memory.optimizer_state[i].span()));
  }
  if (state.step.empty()) return absl::OkStatus();
  float steps = 0;
  RETURN_IF_ERROR(model.ReadValues(state.step, 0, absl::MakeSpan(&steps, 1)));
  if (!(steps >= 0 && steps <= kMostSteps)) {
    return absl::InvalidArgumentError(
        absl::StrCat(state.step, ": expected a number of steps from 0 to 2^62, got ", steps));
  }
  memory.optimizer_steps = static_cast<uint64_t>(steps);
  return absl::OkStatus();
}

// The tables, and their optimizers' state, if it is wanted.
absl::StatusOr<ModelOutput::Tables> TablesInFile(const v1::JobSpec& job,
                                                 const ModelOutput::Tables& tables,
                                                 bool has_state) {
  ModelOutput::Tables all = tables;
  if (!has_state) return all;
  ASSIGN_OR_RETURN(const ModelOutput::Tables state, StateTables(job, tables));
  all.MergeFrom(state);
  return all;
}

}  // namespace

absl::StatusOr<JobModels> JobModels::Open(const v1::GetJobReply& job, const v1::JobView& view,
                                          bool has_initial) {
  JobModels models(job.job(), view);
  RETURN_IF_ERROR(Annotate(models.OpenOutput(job), "--output"));
  if (has_initial && job.restore().empty())
    RETURN_IF_ERROR(Annotate(models.OpenInitial(), "--initial"));
  return models;
}

absl::Status JobModels::OpenOutput(const v1::GetJobReply& job) {
  const std::string& path = job_.output();
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<OpenFile> file = OpenFile::Open(UnfinishedModelPath(path), O_RDWR);
  absl::Status status = file.status();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<ModelTables>> tables = ModelTables::Read(*std::move(file));
    status = tables.ok() ? (*tables)->CheckToken(job.output_token()) : tables.status();
    if (status.ok()) output_ = *std::move(tables);
  }
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(status.message(),
                                                    "; choose a folder that the coordinator "
                                                    "and all servers share"));
  }
  ASSIGN_OR_RETURN(const ModelOutput::Tables tables,
                   TablesInFile(job_, tables_, job_.output_optimizer_state()));
  return output_->CheckTables(tables);
}

absl::Status JobModels::OpenInitial() {
  if (job_.initial().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::unique_ptr<ModelTables> model, ModelTables::Open(job_.initial()));
  const bool has_state = HasOptimizerState(model->header(), tables_);
  ASSIGN_OR_RETURN(const ModelOutput::Tables tables,
                   TablesInFile(job_, tables_, job_.initial_optimizer_state()));
  if (tables.size() > tables_.size() && !has_state) {
    return absl::InvalidArgumentError(
        absl::StrCat(job_.initial(),
                     ": expected the optimizer's state beside the parameters, got none; leave "
                     "--initial_optimizer_state out, or choose a file that has it"));
  }
  RETURN_IF_ERROR(model->CheckTables(tables));
  if (has_state) {
    LOG(INFO) << job_.initial() << " has the optimizer's state, which the job "
              << (job_.initial_optimizer_state()
                      ? "begins with"
                      : "leaves out; --initial_optimizer_state begins with it");
  }
  initial_ = std::move(model);
  return absl::OkStatus();
}

ShardHost::InitialSource JobModels::initial() const {
  if (initial_ == nullptr) return nullptr;
  return [model = initial_, job = job_, tables = tables_](TableId table, uint64_t offset,
                                                          SliceState::Memory& memory) {
    const v1::TableSpec& spec = tables.Get(static_cast<int>(table.value()));
    absl::Status status = ReadFinite(*model, spec.name(), offset, job.consistency().check_finite(),
                                     memory.values.span());
    if (status.ok() && job.initial_optimizer_state()) {
      status = ReadState(*model, StateTensorsOf(job, spec), offset, memory);
    }
    return Annotate(status, "--initial");
  };
}

absl::Status JobModels::Save(ShardHost& host) const {
  if (output_ == nullptr) return absl::OkStatus();
  LOG(INFO) << "writing parameters into the file of --output";
  absl::Status status = host.ReadSlices([&](uint64_t offset, const SliceSnapshot& slice) {
    const v1::TableSpec& table = tables_.Get(static_cast<int>(slice.key.table.value()));
    const StateTensors state =
        job_.output_optimizer_state() ? StateTensorsOf(job_, table) : StateTensors();
    return WriteDenseSlice(slice, table.name(), offset, state, *output_);
  });
  if (status.ok()) status = output_->Sync();
  return Annotate(status, "--output");
}

}  // namespace capstan
