#include "common/membership/coordinator_absence.h"

#include <glog/logging.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan {
namespace {

// Shorter absences have no line in the log.
constexpr absl::Duration kWorthALine = absl::Seconds(1);

std::string SecondsText(absl::Duration time) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(time));
}

}  // namespace

void CoordinatorAbsence::BeginToWait(std::string address, absl::Duration patience) {
  MutexLock lock(&mu_);
  address_ = std::move(address);
  patience_ = patience;
}

void CoordinatorAbsence::NoteFailure(absl::Time sent_at, absl::Time due) {
  const absl::Time now = clock_.Now();
  std::string text;
  {
    MutexLock lock(&mu_);
    if (sent_at < last_answer_) return;
    if (!since_.has_value()) since_ = due;
    if (!IsAwaitedLocked() || is_told_ || now - *since_ < kWorthALine) return;
    is_told_ = true;
    text = absl::StrCat("the coordinator at ", address_, " has not answered for ",
                        SecondsText(now - *since_),
                        ": training goes on; until it is back nobody can join, lost servers and "
                        "workers are not replaced, and no checkpoint or change of consistency "
                        "begins; this process waits for it for ",
                        absl::ToDoubleSeconds(patience_), " s (--coordinator_seconds)");
  }
  LOG(WARNING) << text;
}

void CoordinatorAbsence::NoteAnswer() {
  const absl::Time now = clock_.Now();
  absl::Duration away;
  {
    MutexLock lock(&mu_);
    last_answer_ = now;
    if (!since_.has_value()) return;
    if (IsAwaitedLocked()) last_away_ = now;
    away = now - *std::exchange(since_, std::nullopt);
    if (!std::exchange(is_told_, false)) return;
  }
  LOG(WARNING) << "the coordinator answers again after " << SecondsText(away);
}

absl::Duration CoordinatorAbsence::patience() const {
  MutexLock lock(&mu_);
  return patience_;
}

absl::Duration CoordinatorAbsence::away() const {
  MutexLock lock(&mu_);
  return since_.has_value() ? clock_.Now() - *since_ : absl::ZeroDuration();
}

absl::Time CoordinatorAbsence::last_away() const {
  MutexLock lock(&mu_);
  return IsAwaitedLocked() && since_.has_value() ? clock_.Now() : last_away_;
}

}  // namespace capstan
