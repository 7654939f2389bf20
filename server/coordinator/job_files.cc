#include "server/coordinator/job_files.h"

#include <glog/logging.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/model_file/model_file.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/job_of_checkpoint.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/plans/output_plan.h"
#include "server/coordinator/saved_job.h"
#include "server/coordinator/state/file_state_store.h"
#include "server/coordinator/state/posix_state_folder.h"

namespace capstan {
namespace {

bool HasEnded(v1::Phase phase) { return phase == v1::DONE || phase == v1::FAILED; }

// The path of the checkpoint to go on from; empty: the job begins anew.
absl::StatusOr<std::string> PathToRestore(const v1::CheckpointSpec& checkpoint) {
  std::string newest;
  if (!checkpoint.dir().empty()) {
    ASSIGN_OR_RETURN(newest, NewestCheckpoint(checkpoint.dir()));
  }
  if (checkpoint.restore() == kLatestCheckpoint) {
    if (newest.empty()) {
      LOG(INFO) << "--restore=latest: there is no complete checkpoint in " << checkpoint.dir()
                << ", so the job begins anew";
    }
    return newest;
  }
  if (!checkpoint.restore().empty() || newest.empty()) return checkpoint.restore();
  return absl::FailedPreconditionError(absl::StrCat(
      "--checkpoint_dir: expected a folder without checkpoints, as the job begins anew, "
      "got ",
      newest, "; go on from it with --restore=latest, or choose another folder"));
}

absl::Status OpenRestored(const v1::JobSpec& job, Coordinator::Options& options) {
  if (options.saved.has_value()) {
    const v1::JobConstants& constants = *options.saved->constants;
    if (!constants.restore().empty()) {
      options.restored = {constants.restore(), constants.restored()};
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string path, PathToRestore(job.checkpoint()));
  if (path.empty()) return absl::OkStatus();
  // The folder's old checkpoints will make room for those of this job.
  if (!job.checkpoint().dir().empty()) {
    ASSIGN_OR_RETURN(const std::string newest, NewestCheckpoint(job.checkpoint().dir()));
    const auto other = newest.empty() || newest == path
                           ? absl::StatusOr<v1::CheckpointManifest>(absl::CancelledError())
                           : ReadManifest(newest);
    if (other.ok()) {
      RETURN_IF_ERROR(Annotate(CheckJobOfCheckpoint(*other, job, newest), "--checkpoint_dir"));
    }
  }
  absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(path);
  if (absl::IsNotFound(manifest.status())) {
    const absl::StatusOr<std::string> newest = NewestCheckpoint(path);
    if (newest.ok() && !newest->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--restore: expected a checkpoint, got ", path,
                       ", a folder of checkpoints; the newest of them is ", *newest));
    }
  }
  RETURN_IF_ERROR(Annotate(manifest.status(), "--restore"));
  RETURN_IF_ERROR(Annotate(CheckJobOfCheckpoint(*manifest, job, path), "--restore"));
  const auto steps = static_cast<int64_t>(job.training().steps());
  if (!job.stay() && steps > 0 && manifest->step() > steps) {
    return absl::InvalidArgumentError(absl::StrCat("--steps: expected at least ", manifest->step(),
                                                   ", the step of ", path, ", got ", steps));
  }
  if (manifest->has_other_bits() && !job.membership().allow_other_bits()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--restore: expected a checkpoint with the bits of an undisturbed job, got ", path,
        ", before which a worker was lost under bsp; choose an earlier one, or add "
        "--allow_other_bits"));
  }
  options.restored = {path, *std::move(manifest)};
  return absl::OkStatus();
}

absl::Status OpenOutput(bool takes_over, Coordinator::Options& options) {
  const v1::JobSpec& job = options.job;
  const bool is_done = options.saved.has_value() && HasEnded(options.saved->state.view().phase());
  if (job.output().empty() || is_done) return absl::OkStatus();
  ASSIGN_OR_RETURN(options.output, CreateModelFile(job.output(), options.folder_token, takes_over));
  const bool was_made = options.saved.has_value() && options.saved->state.view().epoch() > 0;
  if (!was_made) return absl::OkStatus();
  return OutputPlan::BeginWork(job, options.saved->constants->tables())(*options.output);
}

}  // namespace

absl::Status OpenState(const std::string& dir, bool takes_over, Coordinator::Options& options) {
  absl::StatusOr<std::unique_ptr<PosixStateFolder>> folder =
      PosixStateFolder::Open(dir, takes_over);
  RETURN_IF_ERROR(Annotate(folder.status(), "--state"));
  FileStateStore::Options of_store;
  of_store.folder = *std::move(folder);
  of_store.dir = dir;
  of_store.check = [&options](const SavedJob& saved) { return CheckSavedJob(saved, options.job); };
  absl::StatusOr<FileStateStore::Opened> opened = FileStateStore::Open(std::move(of_store));
  RETURN_IF_ERROR(Annotate(opened.status(), "--state"));
  options.store = std::move(opened->store);
  options.saved = std::move(opened->before);
  if (!options.saved.has_value()) return absl::OkStatus();
  options.job_fingerprint = options.saved->state.job_fingerprint();
  options.folder_token = options.saved->state.folder_token();
  return absl::OkStatus();
}

absl::Status OpenJobFiles(bool takes_over, Coordinator::Options& options) {
  const v1::JobSpec& job = options.job;
  const uint64_t token = options.folder_token;
  if (!job.checkpoint().dir().empty()) {
    absl::StatusOr<std::unique_ptr<CheckpointStorage>> checkpoints =
        OpenCheckpointFolder(job.checkpoint().dir(), token, takes_over);
    RETURN_IF_ERROR(Annotate(checkpoints.status(), "--checkpoint_dir"));
    options.checkpoints = *std::move(checkpoints);
  }
  RETURN_IF_ERROR(OpenRestored(job, options));
  return Annotate(OpenOutput(takes_over, options), "--output");
}

}  // namespace capstan
