#include "common/membership/view_watch.h"

#include <gtest/gtest.h>

#include <thread>

#include "common/base/fake_clock.h"

namespace capstan {
namespace {

v1::JobView View(v1::Phase phase) {
  v1::JobView view;
  view.set_phase(phase);
  return view;
}

bool IsDone(const v1::JobView& view) { return view.phase() == v1::DONE; }

TEST(ViewWatchTest, ReturnsTheAwaitedViewWhenItComes) {
  FakeClock clock;
  ViewWatch watch(&clock);
  watch.OnView(View(v1::TRAINING));
  std::thread other([&] { watch.OnView(View(v1::DONE)); });
  const auto view = watch.WaitFor(IsDone);
  other.join();
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->phase(), v1::DONE);
}

TEST(ViewWatchTest, AFailedJobEndsTheWaitWithItsReason) {
  FakeClock clock;
  ViewWatch watch(&clock);
  v1::JobView failed = View(v1::FAILED);
  failed.set_reason("server 1 is gone");
  watch.OnView(failed);
  EXPECT_EQ(watch.WaitFor(IsDone).status(),
            absl::AbortedError("the job has failed: server 1 is gone"));
}

TEST(ViewWatchTest, ALostCoordinatorEndsTheWait) {
  FakeClock clock;
  ViewWatch watch(&clock);
  watch.OnLost(absl::UnavailableError("coordinator a:1 has been unreachable"));
  EXPECT_TRUE(absl::IsUnavailable(watch.WaitFor(IsDone).status()));
}

}  // namespace
}  // namespace capstan
