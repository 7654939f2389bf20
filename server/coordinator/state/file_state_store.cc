#include "server/coordinator/state/file_state_store.h"

#include <glog/logging.h>
#include <xxhash.h>

#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/coordinator/state/saved_states.h"
#include "server/coordinator/state/state_file.h"

namespace capstan {
namespace {

absl::Status TakenOver(uint64_t term, const std::string& dir) {
  return absl::AbortedError(absl::StrCat("another coordinator has taken over (term ", term, " in ",
                                         dir, "); this one ends"));
}

// Errors of StateStore's calls: what the disk does may pass.
absl::Status Unavailable(const absl::Status& status) {
  if (status.ok() || absl::IsAborted(status)) return status;
  return absl::UnavailableError(status.message());
}

// Reads the newest state, and checks whether a coordinator may go on with it.
absl::StatusOr<std::optional<SavedJob>> ReadChecked(const FileStateStore::Options& options) {
  ASSIGN_OR_RETURN(std::optional<SavedJob> job, ReadNewestState(*options.folder, options.dir));
  if (job.has_value() && !job->state.is_over() && options.check != nullptr) {
    RETURN_IF_ERROR(options.check(*job));
  }
  return job;
}

// Makes the folder of a new term, the latest one. Returns the term.
absl::StatusOr<uint64_t> BeginTerm(StateFolder& folder) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> terms, ListTerms(folder));
  uint64_t term = terms.empty() ? 0 : terms.front();
  absl::Status made;
  do {
    made = folder.MakeFolder(TermFolder(++term));
  } while (absl::IsAlreadyExists(made));
  RETURN_IF_ERROR(made);
  return term;
}

}  // namespace

absl::StatusOr<FileStateStore::Opened> FileStateStore::Open(Options options) {
  RETURN_IF_ERROR(ReadChecked(options).status());
  ASSIGN_OR_RETURN(const uint64_t term, BeginTerm(*options.folder));
  // What an earlier term writes from now on, it knows to be too late.
  ASSIGN_OR_RETURN(std::optional<SavedJob> before, ReadChecked(options));
  const uint64_t term_before = before.has_value() ? before->state.term() : 0;
  if (before.has_value() && before->state.is_over()) before.reset();
  Opened opened;
  opened.store.reset(new FileStateStore(std::move(options), term, term_before));
  // Several coordinators may have begun at once.
  RETURN_IF_ERROR(opened.store->Confirm());
  opened.before = std::move(before);
  return opened;
}

absl::StatusOr<std::vector<uint64_t>> FileStateStore::CheckTerms() {
  ASSIGN_OR_RETURN(std::vector<uint64_t> terms, ListTerms(*folder_));
  if (!terms.empty() && terms.front() > term_) return TakenOver(terms.front(), dir_);
  return terms;
}

absl::Status FileStateStore::Confirm() { return Unavailable(CheckTerms().status()); }

absl::Status FileStateStore::Save(const SavedJob& job) {
  CHECK_EQ(job.state.term(), term_);
  const absl::Status written = WriteState(job);
  // Also after an error: a later term may have removed this one's folder.
  const absl::StatusOr<std::vector<uint64_t>> terms = CheckTerms();
  if (absl::IsAborted(terms.status())) return terms.status();
  RETURN_IF_ERROR(Unavailable(written));
  RETURN_IF_ERROR(Unavailable(terms.status()));
  states_[++saved_] = last_xxh3_;
  RemoveOld(*terms);
  return absl::OkStatus();
}

absl::Status FileStateStore::WriteState(const SavedJob& job) {
  RETURN_IF_ERROR(WriteConstants(job.constants));
  v1::CoordinatorState state = job.state;
  state.set_constants_xxh3(last_xxh3_);
  // If this fails, the next try replaces what may be there.
  return folder_->Write(StatePath(term_, saved_ + 1), EncodeStateFile(state.SerializeAsString()));
}

absl::Status FileStateStore::WriteConstants(
    const std::shared_ptr<const v1::JobConstants>& constants) {
  if (constants == last_constants_) return absl::OkStatus();
  const std::string payload = constants->SerializeAsString();
  const uint64_t xxh3 = XXH3_64bits(payload.data(), payload.size());
  bool& is_written = constants_[xxh3];
  if (!is_written) {
    RETURN_IF_ERROR(folder_->Write(ConstantsPath(term_, xxh3), EncodeStateFile(payload)));
    is_written = true;
  }
  last_constants_ = constants;
  last_xxh3_ = xxh3;
  return absl::OkStatus();
}

void FileStateStore::RemoveOld(const std::vector<uint64_t>& terms) {
  constexpr uint64_t kKept = 2;
  for (auto state = states_.begin(); state != states_.end() && state->first + kKept <= saved_;) {
    state = RemoveFile(StatePath(term_, state->first)) ? states_.erase(state) : std::next(state);
  }
  std::set<uint64_t> named;
  for (const auto& [number, xxh3] : states_) named.insert(xxh3);
  for (auto file = constants_.begin(); file != constants_.end();) {
    auto& [xxh3, is_written] = *file;
    const bool is_needed = named.count(xxh3) != 0;
    is_written = is_written && is_needed;
    file = !is_needed && RemoveFile(ConstantsPath(term_, xxh3)) ? constants_.erase(file)
                                                                : std::next(file);
  }
  // Later terms read this one.
  for (const uint64_t term : terms) {
    if (term < term_ && term != term_before_) folder_->Remove(TermFolder(term)).IgnoreError();
  }
}

bool FileStateStore::RemoveFile(const std::string& path) {
  const absl::Status removed = folder_->Remove(path);
  return removed.ok() || absl::IsNotFound(removed);
}

}  // namespace capstan
