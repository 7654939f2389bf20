#include "server/coordinator/state/state_keeper.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

// Until the next try after an error; longer after each one.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLastPause = absl::Seconds(2);

absl::Status StoppedError() {
  return absl::CancelledError("the coordinator is shutting down; start the job again");
}

}  // namespace

StateKeeper::StateKeeper(Options options, Clock& clock)
    : term_(options.store != nullptr ? options.store->term() : 0),
      options_(std::move(options)),
      clock_(clock),
      later_(&clock) {
  if (options_.store != nullptr && options_.look_interval < absl::InfiniteDuration()) LookLater();
}

StateKeeper::~StateKeeper() {
  later_.Stop();
  std::deque<Say> held;
  {
    MutexLock lock(&mu_);
    lost_ = StoppedError();
    held.swap(held_);
  }
  for (Say& say : held) say(StoppedError());
}

void StateKeeper::WhenKept(uint64_t change, Say say) {
  Hold(change, /*is_to_be_confirmed=*/false, std::move(say));
}

void StateKeeper::WhenConfirmed(uint64_t change, Say say) {
  Hold(change, /*is_to_be_confirmed=*/true, std::move(say));
}

void StateKeeper::Hold(uint64_t change, bool is_to_be_confirmed, Say say) {
  absl::Status lost;
  {
    MutexLock lock(&mu_);
    lost = lost_;
    const bool waits = options_.store != nullptr && (is_to_be_confirmed || change > kept_);
    if (lost.ok() && waits) {
      held_.push_back(std::move(say));
      if (std::exchange(is_working_, true)) return;
      working_since_ = clock_.Now();
    }
  }
  if (say != nullptr) return say(std::move(lost));
  RunWork();
}

void StateKeeper::RunWork() {
  options_.run_in_background([this] { Work(); });
}

void StateKeeper::Work() {
  while (true) {
    std::deque<Say> batch;
    {
      MutexLock lock(&mu_);
      if (held_.empty() || !lost_.ok()) {
        is_working_ = false;
        return;
      }
      batch.swap(held_);
    }
    const absl::Status status = Keep();
    if (absl::IsUnavailable(status)) {
      if (TryLater(batch, status)) return;
      continue;
    }
    if (!status.ok()) Lose(status);
    const absl::Status told = status.ok() ? status : absl::UnavailableError(status.message());
    for (Say& say : batch) say(told);
  }
}

absl::Status StateKeeper::Keep() {
  const Snapshot newest = options_.snapshot();
  uint64_t kept = 0;
  {
    MutexLock lock(&mu_);
    kept = kept_;
  }
  const absl::Status status =
      newest.change > kept ? options_.store->Save(newest.job) : options_.store->Confirm();
  if (!status.ok()) return status;
  MutexLock lock(&mu_);
  kept_ = newest.change;
  pause_ = absl::ZeroDuration();
  const absl::Time since = std::exchange(working_since_, clock_.Now());
  if (std::exchange(is_failing_, false)) {
    LOG(INFO) << "the state of the job is kept again, after "
              << absl::FormatDuration(working_since_ - since);
  }
  return status;
}

bool StateKeeper::TryLater(std::deque<Say>& batch, const absl::Status& error) {
  absl::Duration pause;
  {
    MutexLock lock(&mu_);
    if (!std::exchange(is_failing_, true)) {
      LOG(WARNING) << "the state of the job could not be kept: " << error.message()
                   << "; members hear of no change until it can, and train meanwhile";
    }
    for (Say& say : held_) batch.push_back(std::move(say));
    held_.swap(batch);
    if (clock_.Now() - working_since_ < options_.patience) {
      pause = pause_ = std::clamp(2 * pause_, kFirstPause, kLastPause);
    }
  }
  if (pause == absl::ZeroDuration()) {
    Lose(absl::UnavailableError(absl::StrCat("the state of the job could not be kept for ",
                                             absl::FormatDuration(options_.patience),
                                             " (--coordinator_seconds): ", error.message())));
    return false;
  }
  later_.RunAfter(pause, [this](bool is_due) {
    if (is_due) RunWork();
  });
  return true;
}

void StateKeeper::LookLater() {
  later_.RunAfter(options_.look_interval, [this](bool is_due) {
    if (!is_due) return;
    {
      MutexLock lock(&mu_);
      if (!lost_.ok()) return;
      // Work on the disk looks, too.
      if (is_working_) return LookLater();
    }
    options_.run_in_background([this] { Look(); });
  });
}

void StateKeeper::Look() {
  const absl::Status status = options_.store->Confirm();
  // Other errors matter only to what is to be said.
  absl::IsAborted(status) ? Lose(status) : LookLater();
}

void StateKeeper::Lose(absl::Status error) {
  std::deque<Say> held;
  {
    MutexLock lock(&mu_);
    lost_ = absl::UnavailableError(error.message());
    held.swap(held_);
  }
  for (Say& say : held) say(absl::UnavailableError(error.message()));
  if (options_.on_lost != nullptr) std::exchange(options_.on_lost, nullptr)(std::move(error));
}

absl::Status StateKeeper::Finish() {
  if (options_.store == nullptr) return absl::OkStatus();
  {
    MutexLock lock(&mu_);
    if (!lost_.ok()) return lost_;
  }
  Snapshot newest = options_.snapshot();
  newest.job.state.set_is_over(true);
  return options_.store->Save(newest.job);
}

absl::Duration StateKeeper::WaitingTime() {
  MutexLock lock(&mu_);
  return is_working_ ? clock_.Now() - working_since_ : absl::ZeroDuration();
}

}  // namespace capstan
