#include "server/slice/parked_pulls.h"

#include "absl/strings/str_cat.h"

namespace capstan {

void ParkedPulls::Park(WorkerId worker, ParkedPull pull, ReleasedReplies* released) {
  if (auto older = pulls_.extract(worker); !older.empty()) {
    released->emplace_back(std::move(older.mapped().done),
                           ErrorReply(absl::UnavailableError(absl::StrCat(
                               slice_name_, ": a newer pull has taken this one's place"))));
  }
  pulls_.emplace(worker, std::move(pull));
}

void ParkedPulls::Refuse(WorkerId worker, ReleasedReplies* released) {
  auto older = pulls_.extract(worker);
  if (older.empty()) return;
  released->emplace_back(
      std::move(older.mapped().done),
      ErrorReply(absl::FailedPreconditionError(absl::StrCat(
          slice_name_, ": another process has taken the place of worker ", worker.value()))));
}

void ParkedPulls::Cancel(const absl::Status& status, ReleasedReplies* released) {
  for (auto& [worker, pull] : TakeAll()) {
    released->emplace_back(std::move(pull.done), ErrorReply(status));
  }
}

}  // namespace capstan
