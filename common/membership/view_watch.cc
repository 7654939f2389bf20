#include "common/membership/view_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace capstan {

void ViewWatch::OnView(const v1::JobView& view) {
  MutexLock lock(&mu_);
  view_ = view;
  changed_.NotifyAll();
}

void ViewWatch::OnLost(absl::Status status) {
  MutexLock lock(&mu_);
  lost_ = std::move(status);
  changed_.NotifyAll();
}

absl::StatusOr<v1::JobView> ViewWatch::WaitFor(
    absl::FunctionRef<bool(const v1::JobView&)> is_awaited) {
  MutexLock lock(&mu_);
  while (true) {
    if (view_.phase() == v1::FAILED) {
      return absl::AbortedError(absl::StrCat("the job has failed: ", view_.reason()));
    }
    if (!lost_.ok() && view_.phase() != v1::DONE) return lost_;
    if (is_awaited(view_)) return view_;
    clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
}

}  // namespace capstan
